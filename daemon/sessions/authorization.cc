#include "daemon/sessions/authorization.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "formats/base/unique_fd.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

constexpr const char* kProcessesAreShown =
    "'ps -e' shows the processes that run now, 'profctl ps' those that used the CPU";

Error no_such_process(pid_t pid) {
  return fail(ErrorCode::kNotFound, "no process has pid " + std::to_string(pid),
              kProcessesAreShown);
}

Error not_permitted(const std::string& what) {
  return fail(ErrorCode::kPermissionDenied, what, "ask as root or as a member of the group profd");
}

// All files are read through this descriptor, so that they are of one process: after its end they
// give ESRCH, also when its pid is reused.
Result<UniqueFd> open_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid);
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) return fd;
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not open " + path);
}

Result<ProcessStatus> read_status(int process, pid_t pid) {
  auto status = read_process_status("status", process);
  if (!status && status.error().code == ErrorCode::kNotFound) return no_such_process(pid);
  return status;
}

// Real, effective and saved; the file-system id does not count.
bool all_are(const std::array<std::uint32_t, 4>& ids, std::uint32_t id) {
  return ids[0] == id && ids[1] == id && ids[2] == id;
}

// The files below /proc/PID belong to root when the process is not dumpable. /proc/PID itself and
// other world-readable directories always belong to the process's effective uid (task_dump_owner).
Result<bool> is_dumpable(int process, pid_t pid, uid_t uid) {
  struct stat info {};
  if (::fstatat(process, "fd", &info, AT_SYMLINK_NOFOLLOW) == 0) return info.st_uid == uid;
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not stat /proc/" + std::to_string(pid) + "/fd");
}

// Such as "user:[4026531837]" for "ns/user"; empty: it could not be read.
std::string namespace_of(int process, const char* kind) {
  std::array<char, 64> link{};
  const ssize_t bytes = ::readlinkat(process, kind, link.data(), link.size());
  return {link.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

std::string own_namespace(const char* kind) {
  const UniqueFd self(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
  return self.valid() ? namespace_of(self.get(), kind) : std::string();
}

// Whether the caller's pids may be numbers of another PID namespace than profd's. Of a caller that
// has ended that is not known: a process of any namespace may have its socket.
bool has_other_pids(const Caller& caller) {
  const auto process = open_process(caller.pid);
  if (!process) return true;
  const std::string theirs = namespace_of(process->get(), "ns/pid");
  return !theirs.empty() && theirs != own_namespace("ns/pid");
}

// The part of the kernel's rule that is not about ids (cap_ptrace_access_check). The caller's own
// capabilities and namespace are not known: it is taken for one without capabilities in profd's
// namespace. So a caller in a namespace of its own is refused processes that the kernel would let
// it read.
Result<void> has_no_more_privileges(int process, const ProcessStatus& status,
                                    const std::string& name) {
  if (status.permitted_capabilities != 0) return not_permitted(name + " has capabilities");
  const std::string own = own_namespace("ns/user");
  if (own.empty()) return fail_errno("could not read /proc/self/ns/user");
  if (namespace_of(process, "ns/user") == own) return {};
  return not_permitted(name + " is in another user namespace");
}

Result<void> may_read(const Caller& caller, int process, pid_t pid) {
  const auto status = read_status(process, pid);
  if (!status) return status.error();
  const std::string name = "pid " + std::to_string(pid);
  if (!all_are(status->uids, caller.uid)) return not_permitted(name + " belongs to another user");
  if (!all_are(status->gids, caller.gid)) return not_permitted(name + " runs with another group");
  if (auto equal = has_no_more_privileges(process, *status, name); !equal) return equal;
  const auto dumpable = is_dumpable(process, pid, caller.uid);
  if (!dumpable) return dumpable.error();
  if (!*dumpable) return not_permitted(name + " is protected from being read (not dumpable)");
  return {};
}

Result<void> authorize_own(const Caller& caller, const TargetRequest& target) {
  if (target.all) return not_permitted("only root and the group profd may profile all processes");
  for (const std::uint32_t uid : target.uids) {
    if (uid != caller.uid) {
      return not_permitted("uid " + std::to_string(uid) + " is another user");
    }
  }
  return {};
}

}  // namespace

Result<void> authorize_process(const Caller& caller, pid_t pid) {
  const auto process = open_process(pid);
  if (!process) return process.error();
  if (caller.privileged) return {};
  return may_read(caller, process->get(), pid);
}

Result<void> authorize_target(const Caller& caller, const TargetRequest& target) {
  if (!caller.privileged) {
    if (auto own = authorize_own(caller, target); !own) return own;
  }
  if (!target.pids.empty() && has_other_pids(caller)) {
    return fail(ErrorCode::kInvalidArgument,
                "the caller is in another PID namespace, where processes have other pids",
                "give a name, a user id or a cgroup, or ask from outside of the container");
  }
  for (const std::uint32_t pid : target.pids) {
    if (auto one = authorize_process(caller, static_cast<pid_t>(pid)); !one) return one;
  }
  return {};
}

}  // namespace profd
