#include "formats/python/code_object.h"

#include <string>

#include "formats/interpreters/text.h"
#include "formats/python/layouts.h"
#include "formats/python/line_table.h"

namespace profd {
namespace {

std::vector<InterpretedLine> lines_of_code(const RawCode& code) {
  const RawText& table = code.texts[PROFD_CODE_LINES];
  const unsigned minor = code.layout + python::kFirstMinor - 1;
  const bool is_known = code.layout != 0 && minor <= python::kLastMinor;
  if (!is_known || table.kind != PROFD_TEXT_BYTES) return {};
  std::vector<InterpretedLine> lines =
      python::decode_lines(table.bytes, minor, code.first_line, code.units);
  // A table without an end of its last line (co_lnotab) does not say where it was cut.
  const bool is_cut = (code.cut >> PROFD_CODE_LINES & 1U) != 0;
  const bool has_open_end = is_cut && !lines.empty();
  if (has_open_end && lines.back().line != 0 && lines.size() < kMaxInterpretedLines) {
    lines.push_back({.position = lines.back().position + 1, .line = 0});
  }
  return lines;
}

}  // namespace

DecodedCode decode_python_code(const RawCode& code) {
  DecodedCode decoded{.name = utf8_of(code, PROFD_CODE_QUALIFIER),
                      .file = utf8_of(code, PROFD_CODE_FILE),
                      .lines = lines_of_code(code)};
  if (decoded.name.empty()) decoded.name = utf8_of(code, PROFD_CODE_NAME);
  if (decoded.name.empty()) decoded.name.assign(1, '?');
  return decoded;
}

}  // namespace profd
