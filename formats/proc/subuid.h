// /etc/subuid: the ranges of subordinate uids that a user may give to the user namespaces that it
// makes (subuid(5)).

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

struct SubordinateRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t owner = 0;

  friend bool operator==(const SubordinateRange&, const SubordinateRange&) = default;
};

// The lines after that many are not read.
inline constexpr std::size_t kMaxSubordinateRanges = 4096;

// Lines are NAME:FIRST:COUNT or UID:FIRST:COUNT, in decimal. `uids` has the uids of names. A name
// that it lacks is of a user that another service knows (LDAP, SSSD): the owner of all ranges of
// that name is the first uid of the first one. Lines of another form, with a range from uid 0 or
// with uids over 32 bits are skipped, and so are names that begin with '#', '+' or '-'.
[[nodiscard]] std::vector<SubordinateRange> parse_subordinate_uids(
    std::string_view text, const std::map<std::string, std::uint32_t, std::less<>>& uids);

}  // namespace profd
