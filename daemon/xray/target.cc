#include "daemon/xray/target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr int kStartTimeField = 22;  // of /proc/PID/stat, from 1
constexpr int kFirstFieldAfterName = 3;

std::string proc_path(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The fields after the name are separated by one space each; the name itself may have spaces and
// parentheses.
std::optional<std::uint64_t> start_time_ns(pid_t pid) {
  const std::string stat = first_line(proc_path(pid, "stat"));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = kFirstFieldAfterName; i <= kStartTimeField; ++i) fields >> field;
  std::uint64_t ticks = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), ticks);
  if (error != std::errc()) return std::nullopt;
  return ticks * (1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

// The line of cgroup v2 is "0::PATH".
std::string cgroup_of(pid_t pid) {
  std::ifstream file(proc_path(pid, "cgroup"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void describe(const struct stat& status, MappedFile& file) {
  file.key = {.inode = status.st_ino,
              .size_bytes = static_cast<std::uint64_t>(status.st_size),
              .ctime_ns = nanoseconds(status.st_ctim),
              .device = static_cast<std::uint32_t>(status.st_dev),
              .generation = 0};
  file.stat_device = status.st_dev;
  file.stat_inode = status.st_ino;
  file.stat_ctime_ns = nanoseconds(status.st_ctim);
  file.owner = status.st_uid;
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
  file.fd.reset(::open(link.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    file.error = fail_errno("could not open " + link).message;
    file.fd.reset();
    return file;
  }
  describe(status, file);
  return file;
}

}  // namespace

Result<XrayTarget> find_xray_target(pid_t pid, BoundedRunner& runner) {
  const auto started = start_time_ns(pid);
  if (!started) return fail(ErrorCode::kNotFound, "no process has pid " + std::to_string(pid));
  const uid_t uid = effective_uid_of(pid).value_or(0);
  auto program = runner.run(uid, [pid] { return open_program(pid); });
  if (!program) {
    return fail(ErrorCode::kTimeout,
                "the program of pid " + std::to_string(pid) + " did not open in time");
  }
  if (!program->fd.valid()) return fail(ErrorCode::kIo, program->error);
  CgroupOwner owner = owner_of_cgroup(cgroup_of(pid));
  return XrayTarget{.pid = pid,
                    .start_time_ns = *started,
                    .comm = first_line(proc_path(pid, "comm")),
                    .unit = std::move(owner.unit),
                    .container = std::move(owner.container),
                    .program = std::make_shared<const MappedFile>(std::move(*program))};
}

std::optional<uid_t> effective_uid_of(pid_t pid) {
  std::ifstream file(proc_path(pid, "status"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream ids(line.substr(4));
    uid_t real = 0;
    uid_t effective = 0;
    if (ids >> real >> effective) return effective;
  }
  return std::nullopt;
}

}  // namespace profd
