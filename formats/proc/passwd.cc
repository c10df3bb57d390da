#include "formats/proc/passwd.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace profd {
namespace {

// The text up to the next colon, which is removed with it.
std::string_view take_field(std::string_view& line) {
  const std::string_view field = line.substr(0, line.find(':'));
  line.remove_prefix(std::min(field.size() + 1, line.size()));
  return field;
}

void add_user(std::string_view line, std::map<std::uint32_t, std::string>& names) {
  const std::string_view name = take_field(line);
  (void)take_field(line);  // the password
  const std::string_view number = take_field(line);
  std::uint32_t uid = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), uid);
  if (name.empty() || error != std::errc() || end != number.data() + number.size()) return;
  names.try_emplace(uid, name);
}

}  // namespace

std::map<std::uint32_t, std::string> parse_user_names(std::string_view text) {
  std::map<std::uint32_t, std::string> names;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    add_user(line, names);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return names;
}

}  // namespace profd
