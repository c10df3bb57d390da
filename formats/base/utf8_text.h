// Valid UTF-8 from bytes that another process chose: names of functions, files and programs.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// The longest name in what profd writes.
inline constexpr std::size_t kMaxPrintableBytes = 1024;

[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Malformed sequences become U+FFFD. A result of more than `max_bytes` (at least 3) is cut between
// two characters and ends in "...". A text that needs no change stays unchanged.
[[nodiscard]] std::string valid_utf8(std::string_view text, std::size_t max_bytes);

// The same without a limit.
[[nodiscard]] std::string valid_utf8(std::string_view text);

// Whether a terminal may take a character for a command: C0 (such as a newline or an escape), DEL
// and, in valid UTF-8, C1 and format characters, which change the order of a line (U+202E) or are
// invisible, so that a name looks like another.
[[nodiscard]] bool has_controls(std::string_view text);

// Each of these characters becomes '?'. Nothing else changes.
[[nodiscard]] std::string without_controls(std::string_view text);

// Whether a text is valid UTF-8 without control characters, so that a terminal can show it.
[[nodiscard]] bool is_printable(std::string_view text);

// valid_utf8() and without_controls(): the form of each name that another process chose.
[[nodiscard]] std::string printable_utf8(std::string_view text, std::size_t max_bytes);

}  // namespace profd
