#include "formats/base/text_fields.h"

#include <algorithm>

namespace profd {
namespace {

constexpr std::string_view kBlanks = " \t";

// 0: `text` does not start with an escape.
char escaped_character(std::string_view text) {
  constexpr std::string_view kOctal = "01234567";
  if (text.size() < 4 || text[0] != '\\') return 0;
  if (text.substr(1, 3).find_first_not_of(kOctal) != text.npos) return 0;
  return static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
}

}  // namespace

void TextFields::expect(char wanted) {
  ok_ = ok_ && rest_.starts_with(wanted);
  if (ok_) rest_.remove_prefix(1);
}

void TextFields::blanks() {
  const std::size_t count = std::min(rest_.find_first_not_of(kBlanks), rest_.size());
  ok_ = ok_ && count > 0;
  if (ok_) rest_.remove_prefix(count);
}

std::string_view TextFields::word() {
  const std::string_view taken = rest_.substr(0, rest_.find_first_of(kBlanks));
  ok_ = ok_ && !taken.empty();
  if (!ok_) return {};
  rest_.remove_prefix(taken.size());
  return taken;
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string without_octal_escapes(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const char escaped = escaped_character(text);
    plain += escaped != 0 ? escaped : text[0];
    text.remove_prefix(escaped != 0 ? 4 : 1);
  }
  return plain;
}

}  // namespace profd
