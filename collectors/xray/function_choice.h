// Which of a program's instrumented functions a session is to record.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd::xray {

inline constexpr std::size_t kMaxPatternBytes = 1024;

// A regular expression of RE2's syntax, found anywhere in a name; matching takes linear time
// whatever it is. kInvalidArgument says what is wrong with it.
[[nodiscard]] Result<void> check_pattern(std::string_view pattern);

// The symbol's name for people, itself where it is not mangled.
[[nodiscard]] std::string demangled(const std::string& name);

// The numbers (from 1) of the functions whose demangled names match with their arguments or without
// them, in order. `names` are those of
// the symbol table, by number - 1.
[[nodiscard]] Result<std::vector<std::int32_t>> choose_functions(
    const std::vector<std::string>& names, std::string_view pattern);

}  // namespace profd::xray
