#include "formats/proc/mountinfo.h"

#include <optional>

#include "formats/base/text_fields.h"

namespace profd {
namespace {

// "36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw": any number of fields may
// stand before the "-".
std::optional<Mount> parse_line(std::string_view line) {
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
  return Mount{id, without_octal_escapes(mount_point), std::string(file_system),
               major_number << 20 | minor_number};
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  while (!text.empty()) {
    if (auto mount = parse_line(take_line(text))) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

// "fuse", "fuseblk", "fuse.sshfs".
bool is_fuse(std::string_view file_system) { return file_system.starts_with("fuse"); }

// "overlay"; "overlayfs" in early kernels of Ubuntu.
bool is_overlay(std::string_view file_system) { return file_system.starts_with("overlay"); }

}  // namespace profd
