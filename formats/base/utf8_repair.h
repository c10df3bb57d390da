// Text of other processes, such as a command name, made valid where it is shown or written.

#pragma once

#include <string>
#include <string_view>

namespace profd {

// Each byte that belongs to no character of UTF-8 becomes U+FFFD; all characters stay.
[[nodiscard]] std::string repaired_utf8(std::string_view text);

}  // namespace profd
