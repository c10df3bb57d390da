#include "formats/interpreters/code.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

bool is_decoded_text(std::string_view text) {
  return is_valid_utf8(text) && text.find('\0') == std::string_view::npos;
}

}  // namespace

bool is_valid(const DecodedCode& code) {
  if (code.name.empty() || !is_decoded_text(code.name) || !is_decoded_text(code.file)) return false;
  if (code.lines.size() > kMaxInterpretedLines) return false;
  const auto disordered = std::ranges::adjacent_find(code.lines, std::ranges::greater_equal{},
                                                     &InterpretedLine::position);
  return disordered == code.lines.end();
}

std::uint32_t line_at(const DecodedCode& code, std::uint32_t position) {
  if (code.lines.empty()) return 0;
  if (position == PROFD_NO_POSITION) return code.lines.front().line;
  const auto next = std::ranges::upper_bound(code.lines, position, {}, &InterpretedLine::position);
  return next == code.lines.begin() ? 0 : std::prev(next)->line;
}

}  // namespace profd
