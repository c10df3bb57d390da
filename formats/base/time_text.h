// Points and spans of time as people write them on a command line: the forms that journalctl takes
// (systemd.time(7)), and those of RFC 3339.
//
//     point := "now" | "today" | "yesterday" | "tomorrow"
//            | "@" SECONDS                          since 1970
//            | ("-" | "+") span | span " ago"       from now
//            | [date (" " | "T")] clock [zone] | date
//     date  := YYYY-MM-DD
//     clock := HH:MM[:SS[.FRACTION]]
//     zone  := "Z" | " UTC" | ("+" | "-") HH:MM     absent: the local time zone
//     span  := (NUMBER [unit])+, with or without blanks between them; a plain number is seconds
//     unit  := ms | s | m | h | d | w, and their words (sec, minutes, hr, ...)
//
// Pure but for the local time zone, which is libc's (TZ).

#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

// A clock without a date is today's. From 1970 to 9999; kInvalidArgument for anything else, a date
// that is in no calendar and a local time that a change of clocks left out included.
[[nodiscard]] Result<WallTime> parse_time_text(std::string_view text, WallTime now);

// At least 1 ms.
[[nodiscard]] Result<std::chrono::milliseconds> parse_time_span(std::string_view text);

// "2026-11-20 14:05:00", local: what parse_time_text() reads.
[[nodiscard]] std::string local_time_text(WallTime time);

}  // namespace profd
