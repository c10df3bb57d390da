// File names made of names that processes choose.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// Replaces every byte but A-Z a-z 0-9 . _ + - by '_', also a leading dot (a hidden file) or dash
// (an option of a program that gets the name), and cuts the name to `max_bytes`. An empty name
// becomes "_".
[[nodiscard]] std::string safe_file_name(std::string_view name, std::size_t max_bytes);

}  // namespace profd
