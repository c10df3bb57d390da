// Who loses something where all that users other than root may have together is taken: without
// that, a few users could keep all others from having any.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace profd {

// The user with the most, if that is more than `user` will have with one more. None: what `user`
// asks for is refused. `amounts` has what each user has; root's counts for nothing.
template <typename Amount>
[[nodiscard]] std::optional<std::uint32_t> user_with_more(
    const std::map<std::uint32_t, Amount>& amounts, std::uint32_t user, Amount one = 1) {
  const auto amount_of = [](const auto& entry) { return entry.first == 0 ? 0 : entry.second; };
  const auto most = std::ranges::max_element(amounts, {}, amount_of);
  const auto own = amounts.find(user);
  const Amount wanted = (own == amounts.end() ? 0 : own->second) + one;
  if (most == amounts.end() || amount_of(*most) <= wanted) return std::nullopt;
  return most->first;
}

}  // namespace profd
