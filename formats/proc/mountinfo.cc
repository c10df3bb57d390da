#include "formats/proc/mountinfo.h"

#include <optional>

#include "formats/base/text_fields.h"

namespace profd {
namespace {

std::string_view next_word(TextFields& fields) {
  fields.blanks();
  return fields.word();
}

// "36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw": any number of fields may
// stand before the "-".
std::optional<Mount> parse_line(std::string_view line) {
  TextFields fields(line);
  const auto id = fields.decimal();
  for (int skipped = 0; skipped < 3; ++skipped) next_word(fields);
  const std::string_view mount_point = next_word(fields);
  while (fields.ok() && next_word(fields) != "-") continue;
  const std::string_view file_system = next_word(fields);
  if (!fields.ok()) return std::nullopt;
  return Mount{id, without_octal_escapes(mount_point), std::string(file_system)};
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

}  // namespace profd
