#include "formats/proc/maps.h"

#include <limits>

#include "formats/base/text_fields.h"

namespace profd {
namespace {

constexpr std::string_view kDeletedSuffix = " (deleted)";

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// The character that "\ooo" at `text` stands for; 0 when there is no such escape.
char escaped_character(std::string_view text) {
  if (text.size() < 4 || text[0] != '\\') return 0;
  if (!is_octal(text[1]) || !is_octal(text[2]) || !is_octal(text[3])) return 0;
  return static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const char escaped = escaped_character(text);
    plain += escaped != 0 ? escaped : text[0];
    text.remove_prefix(escaped != 0 ? 4 : 1);
  }
  return plain;
}

std::uint32_t device_number(TextFields& fields, bool& in_range) {
  const std::uint64_t number = fields.hexadecimal();
  in_range = in_range && number <= std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(number);
}

void set_path(MapsLine& line, std::string_view path) {
  line.deleted = path.ends_with(kDeletedSuffix);
  if (line.deleted) path.remove_suffix(kDeletedSuffix.size());
  line.path = without_escapes(path);
}

}  // namespace

Result<MapsLine> parse_maps_line(std::string_view line) {
  TextFields fields(line);
  MapsLine parsed;
  bool in_range = true;
  parsed.start = fields.hexadecimal();
  fields.expect('-');
  parsed.end = fields.hexadecimal();
  fields.expect(' ');
  parsed.permissions = fields.word();
  fields.expect(' ');
  parsed.file_offset = fields.hexadecimal();
  fields.expect(' ');
  parsed.device_major = device_number(fields, in_range);
  fields.expect(':');
  parsed.device_minor = device_number(fields, in_range);
  fields.expect(' ');
  parsed.inode = fields.decimal();
  if (fields.ok() && !fields.rest().empty()) fields.blanks();
  const bool whole = fields.ok() && in_range && parsed.permissions.size() == 4;
  if (!whole || parsed.end <= parsed.start) {
    return fail(ErrorCode::kMalformed,
                "not a line of /proc/PID/maps: " + std::string(line.substr(0, 200)));
  }
  set_path(parsed, fields.rest());
  return parsed;
}

}  // namespace profd
