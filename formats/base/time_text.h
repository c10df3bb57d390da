// Points in time and spans of time as people write them on a command line: what journalctl accepts
// for the past (systemd.time(7)). And points in time as profd writes them.
//
//     point := "now" | "today" | "yesterday" | "@" SECONDS_SINCE_1970 | "-" span | span " ago"
//            | [[DAY " "] YYYY-MM-DD (" " | "T")] HH:MM[:SS[.FRACTION]] [zone]
//            | [DAY " "] YYYY-MM-DD
//     zone  := "Z" | " UTC" | ("+" | "-") HH:MM     local time (libc's TZ) without it
//     span  := (NUMBER [unit])+                      a number without a unit is of seconds
//     unit  := ms | seconds | minutes | hours | days | weeks, or the start of one: s, min, h, ...
//
// A number may have a fraction. DAY, "Sat" or "Saturday", must be right.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "formats/base/result.h"

namespace profd {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;

// kInvalidArgument for any other text, for a time before 1970, for a date that no calendar has, and
// for a local time that a change of clocks skips. A clock without a date is of the day of `now`.
[[nodiscard]] Result<WallTime> parse_time_text(const std::string& text, WallTime now);

// At least 1 ms.
[[nodiscard]] Result<std::chrono::milliseconds> parse_time_span(const std::string& text);

enum class TimeForm : std::uint8_t { kNone, kPoint, kSpan };

// What a text may be meant as that stands where no time is expected. A plain number is none, since
// it may be a pid, and neither is a text of more than 64 bytes.
[[nodiscard]] TimeForm time_form_of(const std::string& text);

// A time as one argument of a shell: in quotes where it has a blank.
[[nodiscard]] std::string quoted_time(const std::string& time);

// "2026-11-20 14:05:00", local, to the nearest second.
[[nodiscard]] std::string local_time_text(WallTime time);

// RFC 3339 in UTC, to the second: "2026-11-20T13:05:00Z".
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace profd
