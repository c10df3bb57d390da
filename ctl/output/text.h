// Numbers, times and tables as text for people.

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

// "12.30" with two decimals.
[[nodiscard]] std::string decimal_text(double number, int decimals);

// "12.3 %".
[[nodiscard]] std::string percent_text(double percent);

// "14.2 %", "121 %": of a CPU, where there may be many.
[[nodiscard]] std::string cpu_text(double percent);

// A bar of that part (0 to 1) of `columns`, in eighths of a column: "███▌".
[[nodiscard]] std::string bar_text(double part, std::size_t columns);

// "1 window", "2 windows".
[[nodiscard]] std::string counted(std::uint64_t count, const std::string& noun);

// "5 no_row, 2 window", safe for a terminal.
[[nodiscard]] std::string counts_text(const CountsByReason& counts);

// "2026-01-02 04:05:00", the local time of a time that the daemon sends; the text itself, made safe
// for a terminal, if parse_utc() can't read it.
[[nodiscard]] std::string local_text(const std::string& utc);

// Seconds since 1970 of "2026-01-02T03:04:05Z"; nothing for any other form.
[[nodiscard]] std::optional<std::int64_t> parse_utc(const std::string& text);

// Prints columns as wide as their widest text, with two blanks between them and none at the end of
// a line. The texts may have any bytes: they are made safe for a terminal.
using TableRows = std::vector<std::vector<std::string>>;
void print_table(TableRows rows, std::ostream& out);

}  // namespace profd
