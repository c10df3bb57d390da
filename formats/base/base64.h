// Base 64 (RFC 4648, section 4): with padding, without line ends.

#pragma once

#include <string>
#include <string_view>

namespace profd {

[[nodiscard]] std::string base64_text(std::string_view bytes);

}  // namespace profd
