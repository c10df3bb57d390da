#include "daemon/sessions/authorization.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/unique_fd.h"

namespace profd {
namespace {

// Real, effective, saved and file-system id, as in /proc/PID/status.
using Ids = std::array<std::uint32_t, 4>;

Error no_such_process(pid_t pid) {
  return fail(ErrorCode::kNotFound, "no process has pid " + std::to_string(pid));
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

Result<std::string> read_status(int process, pid_t pid) {
  const UniqueFd fd(::openat(process, "status", O_RDONLY | O_CLOEXEC));
  // About 1.5 KiB, but "Groups:" before the capabilities may have 65,536 numbers.
  std::string status;
  std::array<char, 4096> bytes;
  ssize_t got = fd.valid() ? 1 : -1;
  while (got > 0) {
    got = ::read(fd.get(), bytes.data(), bytes.size());
    if (got > 0) status.append(bytes.data(), static_cast<std::size_t>(got));
  }
  if (got == 0) return status;
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not read the status of pid " + std::to_string(pid));
}

// The text after "KEY:\t". No process can forge the line: in "Name:", the only line with text that
// a process chooses, the kernel writes a line feed as "\n".
std::optional<std::string_view> value_of(std::string_view status, std::string_view key) {
  const std::string start = "\n" + std::string(key) + ":\t";
  const std::size_t line = status.find(start);
  if (line == std::string_view::npos) return std::nullopt;
  const std::string_view rest = status.substr(line + start.size());
  return rest.substr(0, rest.find('\n'));
}

std::optional<Ids> ids_of(std::string_view status, std::string_view key) {
  const auto value = value_of(status, key);
  if (!value) return std::nullopt;
  const char* next = value->data();
  const char* const end = value->data() + value->size();
  Ids ids{};
  for (std::uint32_t& id : ids) {
    while (next != end && *next == '\t') ++next;
    const auto [stop, error] = std::from_chars(next, end, id);
    if (error != std::errc()) return std::nullopt;
    next = stop;
  }
  return ids;
}

bool all_are(const Ids& ids, std::uint32_t id) {
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

// The capabilities are hexadecimal digits, as many as the kernel needs.
bool has_no_capabilities(std::string_view status) {
  const auto permitted = value_of(status, "CapPrm");
  return permitted && !permitted->empty() &&
         std::ranges::all_of(*permitted, [](char digit) { return digit == '0'; });
}

std::string user_namespace_of(int process) {
  std::array<char, 64> link{};  // "user:[4026531837]"
  const ssize_t bytes = ::readlinkat(process, "ns/user", link.data(), link.size());
  return {link.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

// The part of the kernel's rule that is not about ids (cap_ptrace_access_check). The caller's own
// capabilities and namespace are not known: it is taken for one without capabilities in profd's
// namespace. So a caller in a namespace of its own is refused processes that the kernel would let
// it read.
Result<void> has_no_more_privileges(int process, std::string_view status, const std::string& name) {
  if (!has_no_capabilities(status)) return not_permitted(name + " has capabilities");
  const UniqueFd self(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string own = self.valid() ? user_namespace_of(self.get()) : std::string();
  if (own.empty()) return fail_errno("could not read /proc/self/ns/user");
  if (user_namespace_of(process) == own) return {};
  return not_permitted(name + " is in another user namespace");
}

Result<void> may_read(const Caller& caller, int process, pid_t pid) {
  const auto status = read_status(process, pid);
  if (!status) return status.error();
  const auto uids = ids_of(*status, "Uid");
  const auto gids = ids_of(*status, "Gid");
  const std::string name = "pid " + std::to_string(pid);
  if (!uids || !gids) return not_permitted("could not read the ids of " + name);
  if (!all_are(*uids, caller.uid)) return not_permitted(name + " belongs to another user");
  if (!all_are(*gids, caller.gid)) return not_permitted(name + " runs with another group");
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
  for (const std::uint32_t pid : target.pids) {
    if (auto one = authorize_process(caller, static_cast<pid_t>(pid)); !one) return one;
  }
  return {};
}

}  // namespace profd
