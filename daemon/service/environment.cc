#include "daemon/service/environment.h"

#include <charconv>
#include <system_error>

#include <stdlib.h>

namespace profd {

std::string take_variable(const char* name) {
  const char* const value = ::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

std::optional<std::uint64_t> take_number(const char* name) {
  const std::string text = take_variable(name);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace profd
