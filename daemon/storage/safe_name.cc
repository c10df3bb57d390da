#include "daemon/storage/safe_name.h"

#include <algorithm>

namespace profd {
namespace {

// Not isalnum(), which depends on the locale.
bool is_safe(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '+' || c == '-';
}

}  // namespace

std::string safe_file_name(std::string_view name, std::size_t max_bytes) {
  std::string safe(name.substr(0, max_bytes));
  std::ranges::replace_if(
      safe, [](char c) { return !is_safe(c); }, '_');
  if (safe.empty()) return "_";
  if (safe.front() == '.' || safe.front() == '-') safe.front() = '_';
  return safe;
}

}  // namespace profd
