// Numbers and tables for people.

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "formats/api/session_summary.h"

namespace profd {

// The two largest units: "5 s", "3 min 20 s", "2 h 5 min", "4 d 3 h".
[[nodiscard]] std::string duration_text(double seconds);

// "512 B", "1.5 KiB", "40.0 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

// "12.3 %".
[[nodiscard]] std::string percent_text(double percent);

// "5 no_row, 2 window", as reasons may be shown on a terminal.
[[nodiscard]] std::string counts_text(const CountsByReason& counts);

// Local time of a time as the daemon tells it: "2026-01-02 04:05:00"; its own text where that is no
// time.
[[nodiscard]] std::string local_text(const std::string& utc);

// Seconds since 1970 of "2026-01-02T03:04:05Z"; nothing for any other form.
[[nodiscard]] std::optional<std::int64_t> parse_utc(const std::string& text);

// Columns as wide as their widest cell, two blanks between them, none at a line's end.
void print_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

}  // namespace profd
