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

// No user has such a name: a comment, an entry of NIS (passwd(5)), or a number that is no uid.
bool is_name(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kNeverFirst = "#+-";
  return text.find_first_not_of(kDigits) != text.npos &&
         kNeverFirst.find(text.front()) == text.npos;
}

// `unknown` has the owners of the ranges of names that `uids` lacks, and gets those of this line.
std::optional<SubordinateRange> parse_range(std::string_view line, const Uids& uids,
                                            Uids& unknown) {
  const std::size_t colon = line.find(':');
  const std::size_t last = line.rfind(':');
  if (colon == line.npos || colon == last || colon == 0) return std::nullopt;
  const std::string_view user = line.substr(0, colon);
  const auto first = number_of(line.substr(colon + 1, last - colon - 1));
  const auto count = number_of(line.substr(last + 1));
  if (!first || !count || *first == 0 || *count == 0) return std::nullopt;
  if (*count - 1 > std::numeric_limits<std::uint32_t>::max() - *first) return std::nullopt;
  const auto named = uids.find(user);
  auto owner = named == uids.end() ? number_of(user) : named->second;
  if (!owner && is_name(user)) owner = unknown.try_emplace(std::string(user), *first).first->second;
  if (!owner) return std::nullopt;
  return SubordinateRange{.first = *first, .count = *count, .owner = *owner};
}

}  // namespace

std::vector<SubordinateRange> parse_subordinate_uids(std::string_view text, const Uids& uids) {
  std::vector<SubordinateRange> ranges;
  Uids unknown;
  for (std::size_t lines = 0; !text.empty() && lines < kMaxSubordinateRanges; ++lines) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (const auto range = parse_range(line, uids, unknown)) ranges.push_back(*range);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return ranges;
}

}  // namespace profd
