// Selects the instrumented functions of a program that a session records.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd::xray {

inline constexpr std::size_t kMaxPatternBytes = 1024;

// A pattern is a regular expression in RE2's syntax that is searched anywhere in a name, in linear
// time. kInvalidArgument: it is invalid.
[[nodiscard]] Result<void> check_pattern(std::string_view pattern);

// Returns `name` itself if it is not mangled.
[[nodiscard]] std::string demangled(const std::string& name);

// Returns the sorted numbers of the functions whose demangled names match, with or without their
// arguments. `names` are those of the symbol table, by number - 1.
[[nodiscard]] Result<std::vector<std::int32_t>> choose_functions(
    const std::vector<std::string>& names, std::string_view pattern);

}  // namespace profd::xray
