// Points in time as JSON carries them.

#pragma once

#include <chrono>
#include <string>

namespace profd {

// RFC 3339 in UTC, to the second: "2026-03-01T14:05:00Z".
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace profd
