// Arguments of the command line in messages.

#pragma once

#include <string>

namespace profd {

// The argument in quotes, cut at about 60 bytes.
[[nodiscard]] std::string shown_argument(const std::string& argument);
// The same without quotes.
[[nodiscard]] std::string shortened(const std::string& argument);

}  // namespace profd
