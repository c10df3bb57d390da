#include "formats/base/text_fields.h"

#include <algorithm>
#include <charconv>

namespace profd {
namespace {

constexpr std::string_view kBlanks = " \t";

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

std::uint64_t TextFields::number(int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
  ok_ = ok_ && error == std::errc();
  if (!ok_) return 0;
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

}  // namespace profd
