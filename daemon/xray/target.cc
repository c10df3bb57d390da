#include "daemon/xray/target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "collectors/host/mounts.h"
#include "formats/proc/cgroup_path.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

std::string proc_path(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::uint64_t> start_time_ns(pid_t pid) {
  const auto stat = read_process_stat(proc_path(pid, "stat"));
  if (!stat) return std::nullopt;
  return stat->start_ticks * (1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

// The line of cgroup v2 is "0::PATH".
std::string cgroup_of(pid_t pid) {
  std::ifstream file(proc_path(pid, "cgroup"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

MappedFile open_program(pid_t pid) {
  MappedFile file;
  const std::string link = proc_path(pid, "exe");
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink(link.c_str(), path.data(), path.size());
  file.path = bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : "unknown";
  if (file.path.ends_with(kDeleted)) {
    file.path.resize(file.path.size() - kDeleted.size());
    file.deleted = true;
  }
  const UniqueFd place(::open(link.c_str(), O_PATH | O_CLOEXEC));
  if (place.valid() && mount_of(place.get(), static_cast<std::uint32_t>(pid)).may_hang) {
    file.error = link + " is on a FUSE file system or an overlay of users, which may not answer";
    return file;
  }
  if (place.valid()) {
    const std::string found = "/proc/self/fd/" + std::to_string(place.get());
    file.fd.reset(::open(found.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
  struct stat status {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    file.error = fail_errno("could not open " + link).message;
    file.fd.reset();
    return file;
  }
  file.key = file_key_of(status);
  file.set_status(status);
  return file;
}

}  // namespace

Result<XrayTarget> find_xray_target(pid_t pid, BoundedRunner& runner, FileCloser& closer) {
  const auto started = start_time_ns(pid);
  if (!started) {
    return fail(ErrorCode::kNotFound, "no process has pid " + std::to_string(pid),
                "'ps -e' shows the processes that run now");
  }
  const uid_t uid = effective_uid_of(pid).value_or(0);
  if (uid != 0 && !closer.has_room()) {
    return fail(ErrorCode::kBusy, "too many programs wait to be closed", "try again later");
  }
  auto opened = runner.run(uid, [pid] { return open_program(pid); });
  if (!opened) {
    return fail(ErrorCode::kTimeout,
                "the program of pid " + std::to_string(pid) + " did not open in time");
  }
  const auto program = closer.closed_here(
      std::shared_ptr<const MappedFile>(std::make_shared<MappedFile>(std::move(*opened))));
  if (!program->fd.valid()) return fail(ErrorCode::kIo, program->error);
  if (program->is_private && program->owner != uid) {
    return fail(ErrorCode::kPermissionDenied,
                "the user of pid " + std::to_string(pid) + " may not read its program");
  }
  CgroupOwner owner = owner_of_cgroup(cgroup_of(pid));
  return XrayTarget{.pid = pid,
                    .start_time_ns = *started,
                    .comm = first_line(proc_path(pid, "comm")),
                    .unit = std::move(owner.unit),
                    .container = std::move(owner.container),
                    .program = program};
}

std::optional<uid_t> effective_uid_of(pid_t pid) {
  const auto status = read_process_status(proc_path(pid, "status"));
  return status ? std::optional(status->effective_uid()) : std::nullopt;
}

}  // namespace profd
