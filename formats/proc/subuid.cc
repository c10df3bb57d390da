#include "formats/proc/subuid.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

namespace profd {
namespace {

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

using Uids = std::map<std::string, std::uint32_t, std::less<>>;

std::optional<SubordinateRange> parse_range(std::string_view line, const Uids& uids) {
  const std::size_t colon = line.find(':');
  const std::size_t last = line.rfind(':');
  if (colon == line.npos || colon == last || colon == 0) return std::nullopt;
  const std::string_view user = line.substr(0, colon);
  const auto named = uids.find(user);
  const auto owner = named == uids.end() ? number_of(user) : named->second;
  const auto first = number_of(line.substr(colon + 1, last - colon - 1));
  const auto count = number_of(line.substr(last + 1));
  if (!owner || !first || !count || *first == 0 || *count == 0) return std::nullopt;
  if (*count - 1 > std::numeric_limits<std::uint32_t>::max() - *first) return std::nullopt;
  return SubordinateRange{.first = *first, .count = *count, .owner = *owner};
}

}  // namespace

std::vector<SubordinateRange> parse_subordinate_uids(std::string_view text, const Uids& uids) {
  std::vector<SubordinateRange> ranges;
  for (std::size_t lines = 0; !text.empty() && lines < kMaxSubordinateRanges; ++lines) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (const auto range = parse_range(line, uids)) ranges.push_back(*range);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return ranges;
}

}  // namespace profd
