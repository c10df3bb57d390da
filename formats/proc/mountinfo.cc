#include "formats/proc/mountinfo.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "formats/base/text_fields.h"

namespace profd {
namespace {

// Two paths of 4 KiB with each character escaped, and the file system, take 33 KiB. The source and
// the options of an overlay come after them and can take megabytes.
constexpr std::size_t kMaxLineBytes = 65'536;

std::chrono::nanoseconds cpu_time_of_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The last word of a line that was cut may be a part of a file system's name.
std::string_view without_cut_word(std::string_view line) {
  return line.size() < kMaxLineBytes ? line : line.substr(0, line.rfind(' '));
}

// "rw,user_id=1000,group_id=1000,allow_other": the kernel writes the options, no user.
std::optional<std::uint32_t> fuse_user_of(std::string_view options) {
  constexpr std::string_view kKey = ",user_id=";
  const std::size_t at = options.find(kKey);
  if (at == options.npos) return std::nullopt;
  TextFields field(options.substr(at + kKey.size()));
  const auto user = field.decimal<std::uint32_t>();
  return field.ok() ? std::optional(user) : std::nullopt;
}

}  // namespace

// "36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw": any number of fields may
// stand before the "-".
std::optional<Mount> parse_mountinfo_line(std::string_view line) {
  TextFields fields(line);
  const auto id = fields.decimal();
  fields.word_after_blanks();  // the parent's id
  fields.blanks();
  const auto major_number = fields.decimal<std::uint32_t>();
  fields.expect(':');
  const auto minor_number = fields.decimal<std::uint32_t>();
  fields.word_after_blanks();  // the root of the mount in its file system
  const std::string_view mount_point = fields.word_after_blanks();
  while (fields.ok() && fields.word_after_blanks() != "-") continue;
  const std::string_view file_system = fields.word_after_blanks();
  if (!fields.ok()) return std::nullopt;
  Mount mount{id, without_octal_escapes(mount_point), std::string(file_system),
              major_number << 20 | minor_number};
  fields.word_after_blanks();  // the source
  if (is_fuse(file_system)) mount.fuse_user = fuse_user_of(fields.word_after_blanks());
  return mount;
}

void visit_mounts(int fd, const MountListLimits& limits,
                  const std::function<bool(const Mount&)>& visit) {
  const std::chrono::nanoseconds time_limit = cpu_time_of_thread() + limits.cpu_time;
  std::size_t left = limits.bytes;
  std::array<char, 65536> chunk;
  std::string line;
  while (left > 0 && cpu_time_of_thread() < time_limit) {
    const ssize_t bytes = ::read(fd, chunk.data(), std::min(chunk.size(), left));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return;
    std::string_view rest(chunk.data(), static_cast<std::size_t>(bytes));
    left -= rest.size();
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      line.append(rest.substr(0, std::min(end, kMaxLineBytes - line.size())));
      if (end == rest.npos) break;
      rest.remove_prefix(end + 1);
      const auto mount = parse_mountinfo_line(without_cut_word(line));
      if (mount && !visit(*mount)) return;
      line.clear();
    }
  }
}

// "fuse", "fuseblk", "fuse.sshfs".
bool is_fuse(std::string_view file_system) { return file_system.starts_with("fuse"); }

// "overlay"; "overlayfs" in early kernels of Ubuntu.
bool is_overlay(std::string_view file_system) { return file_system.starts_with("overlay"); }

}  // namespace profd
