// "Did you mean": the known names that are nearest to a mistyped one.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

// At most `most` names, nearest first: those that begin with `name`, or differ from it by few edits
// (a third of its length, at least 1). Names at the same distance keep their order.
[[nodiscard]] std::vector<std::string_view> nearest_names(std::string_view name,
                                                          std::span<const std::string_view> known,
                                                          std::size_t most = 3);

// "a", "a and b", "a, b and c" for the conjunction " and ".
[[nodiscard]] std::string enumeration(std::span<const std::string_view> names,
                                      std::string_view conjunction);

// "did you mean a, b or c?"; empty for no names.
[[nodiscard]] std::string did_you_mean(std::span<const std::string_view> names);

}  // namespace profd
