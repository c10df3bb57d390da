#include "formats/python/code_object.h"

#include <string>

#include "formats/interpreters/text.h"
#include "formats/python/layouts.h"
#include "formats/python/line_table.h"

namespace profd {
namespace {

bool is_text_cut(const RawCode& code, profd_code_text text) { return (code.cut >> text & 1U) != 0; }

std::string code_text(const RawCode& code, profd_code_text text) {
  std::string decoded = utf8_of(code.texts[text]);
  if (!decoded.empty() && is_text_cut(code, text)) decoded += "...";
  return decoded;
}

std::vector<InterpretedLine> lines_of_code(const RawCode& code) {
  const RawText& table = code.texts[PROFD_CODE_LINES];
  const unsigned minor = code.layout + python::kFirstMinor - 1;
  const bool is_known = code.layout != 0 && minor <= python::kLastMinor;
  if (!is_known || table.kind != PROFD_TEXT_BYTES) return {};
  std::vector<InterpretedLine> lines =
      python::decode_lines(table.bytes, minor, code.first_line, code.units);
  // A table without an end of its last line (co_lnotab) does not say where it was cut.
  const bool has_open_end = is_text_cut(code, PROFD_CODE_LINES) && !lines.empty();
  if (has_open_end && lines.back().line != 0 && lines.size() < kMaxInterpretedLines) {
    lines.push_back({.position = lines.back().position + 1, .line = 0});
  }
  return lines;
}

}  // namespace

DecodedCode decode_python_code(const RawCode& code) {
  DecodedCode decoded{.name = code_text(code, PROFD_CODE_QUALIFIER),
                      .file = code_text(code, PROFD_CODE_FILE),
                      .lines = lines_of_code(code)};
  if (decoded.name.empty()) decoded.name = code_text(code, PROFD_CODE_NAME);
  if (decoded.name.empty()) decoded.name.assign(1, '?');
  return decoded;
}

}  // namespace profd
