#include "daemon/authorization.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "formats/unique_fd.h"

namespace profd {
namespace {

// Real, effective, saved and file-system id, as in /proc/PID/status.
using Ids = std::array<std::uint32_t, 4>;

Error no_such_process(pid_t pid) {
  return fail(ErrorCode::kNotFound, "no process has pid " + std::to_string(pid));
}

Error not_permitted(const std::string& what) {
  return fail(ErrorCode::kPermissionDenied, what, "ask as root, or as a member of the group profd");
}

// Everything is read through this one descriptor, so that it is about one process: a reused pid
// gives ESRCH.
Result<UniqueFd> open_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid);
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) return fd;
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not open " + path);
}

Result<std::string> read_status(int process, pid_t pid) {
  const UniqueFd fd(::openat(process, "status", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> bytes;  // about 1.5 KiB; the ids stand in its first 300 bytes
  const ssize_t got = fd.valid() ? ::read(fd.get(), bytes.data(), bytes.size()) : -1;
  if (got > 0) return std::string(bytes.data(), static_cast<std::size_t>(got));
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not read the status of pid " + std::to_string(pid));
}

// The line that starts with `key`, which no process can forge: in "Name:", the only line with text
// of its own, the kernel writes a line feed as "\n".
std::optional<Ids> ids_of(std::string_view status, std::string_view key) {
  const std::size_t line = status.find("\n" + std::string(key) + ":");
  if (line == std::string_view::npos) return std::nullopt;
  const char* next = status.data() + line + 1 + key.size() + 1;
  const char* const end = status.data() + status.size();
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

// The kernel gives the files below /proc/PID to root when the process is not dumpable. Not
// /proc/PID itself: world-readable directories keep the process's effective uid in any case
// (task_dump_owner).
Result<bool> is_dumpable(int process, pid_t pid, uid_t uid) {
  struct stat info {};
  if (::fstatat(process, "fd", &info, AT_SYMLINK_NOFOLLOW) == 0) return info.st_uid == uid;
  if (errno == ENOENT || errno == ESRCH) return no_such_process(pid);
  return fail_errno("could not look at pid " + std::to_string(pid));
}

Result<void> may_read(const Caller& caller, int process, pid_t pid) {
  const auto status = read_status(process, pid);
  if (!status) return status.error();
  const auto uids = ids_of(*status, "Uid");
  const auto gids = ids_of(*status, "Gid");
  const std::string name = "pid " + std::to_string(pid);
  if (!uids || !gids) return not_permitted("the ids of " + name + " can't be told");
  if (!all_are(*uids, caller.uid)) return not_permitted(name + " belongs to another user");
  if (!all_are(*gids, caller.gid)) return not_permitted(name + " runs with another group");
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
  if (caller.trusted) return {};
  return may_read(caller, process->get(), pid);
}

Result<void> authorize_target(const Caller& caller, const TargetRequest& target) {
  if (!caller.trusted) {
    if (auto own = authorize_own(caller, target); !own) return own;
  }
  for (const std::uint32_t pid : target.pids) {
    if (auto one = authorize_process(caller, static_cast<pid_t>(pid)); !one) return one;
  }
  return {};
}

}  // namespace profd
