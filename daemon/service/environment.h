// Variables by which whoever started us speaks to this process alone.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace profd {

// The variable's value, which is gone afterwards, so that no child inherits it; empty for none.
[[nodiscard]] std::string take_variable(const char* name);

// The same as a whole decimal number; nothing where it is none.
[[nodiscard]] std::optional<std::uint64_t> take_number(const char* name);

}  // namespace profd
