// What a caller sent, made fit for the log.

#pragma once

#include <string>
#include <string_view>

namespace profd {

// Printable ASCII stays; every other byte, and the backslash, is written as \xNN, so that no text
// can forge a line or steer a terminal. Cut to 200 bytes, with "..." after them.
[[nodiscard]] std::string log_text(std::string_view text);

}  // namespace profd
