#include "formats/proc/maps.h"

#include "formats/base/text_fields.h"

namespace profd {
namespace {

constexpr std::string_view kDeletedSuffix = " (deleted)";

void set_path(MapsLine& line, std::string_view path) {
  line.deleted = path.ends_with(kDeletedSuffix);
  if (line.deleted) path.remove_suffix(kDeletedSuffix.size());
  line.path = without_octal_escapes(path);
}

}  // namespace

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
    return fail(ErrorCode::kMalformed,
                "could not parse a line of /proc/PID/maps: " + std::string(line.substr(0, 200)));
  }
  set_path(parsed, fields.rest());
  return parsed;
}

}  // namespace profd
