#include "formats/proc/maps.h"

#include <fstream>
#include <utility>

#include "formats/base/errors.h"
#include "formats/base/text_fields.h"

namespace profd {
Result<MapsLine> parse_maps_line(std::string_view line) {
  TextFields fields(line);
  MapsLine parsed;
  parsed.start = fields.hexadecimal();
  fields.expect('-');
  parsed.end = fields.hexadecimal();
  fields.expect(' ');
  parsed.permissions = fields.word();
  fields.expect(' ');
  parsed.file_offset = fields.hexadecimal();
  fields.expect(' ');
  parsed.device_major = fields.hexadecimal<std::uint32_t>();
  fields.expect(':');
  parsed.device_minor = fields.hexadecimal<std::uint32_t>();
  fields.expect(' ');
  parsed.inode = fields.decimal();
  if (fields.ok() && !fields.rest().empty()) fields.blanks();
  const bool whole = fields.ok() && parsed.permissions.size() == 4;
  if (!whole || parsed.end <= parsed.start) {
    return malformed("could not parse a line of /proc/PID/maps: " +
                     std::string(line.substr(0, 200)));
  }
  const std::string_view path = without_suffix(fields.rest(), " (deleted)");
  parsed.deleted = path != fields.rest();
  parsed.path = without_octal_escapes(path);
  return parsed;
}

std::vector<std::string> code_paths_of(pid_t pid) {
  constexpr std::size_t kMaxLines = 65'536;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::vector<std::string> paths;
  std::size_t lines = 0;
  for (std::string text; lines < kMaxLines && std::getline(maps, text); ++lines) {
    auto line = parse_maps_line(text);
    if (!line || line->permissions.find('x') == std::string::npos || line->path.empty()) continue;
    paths.push_back(std::move(line->path));
  }
  return paths;
}

}  // namespace profd
