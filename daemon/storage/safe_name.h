// Names that processes choose, made fit to be file names anywhere.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// Every byte but A-Z a-z 0-9 . _ + - becomes '_', and so does a leading dot (a hidden
// file) or dash (an option to whatever gets the name); at most `max_bytes`. An empty name becomes
// "_".
[[nodiscard]] std::string safe_file_name(std::string_view name, std::size_t max_bytes);

}  // namespace profd
