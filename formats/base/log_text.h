// Text from a caller in a form that is safe to log.

#pragma once

#include <string>
#include <string_view>

namespace profd {

// Printable ASCII stays; every other byte, and the backslash, is written as \xNN, so that no text
// can forge a log line or control a terminal. The result is cut at 200 bytes and then ends in
// "...".
[[nodiscard]] std::string log_text(std::string_view text);

}  // namespace profd
