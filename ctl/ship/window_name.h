// The name of a window, which has the time of its start.

#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace profd {

using ShipTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// The start of a window by its name, "20260102T140500Z" or "20260102T140500Z-2". None for another
// text.
[[nodiscard]] std::optional<ShipTime> start_of_window(std::string_view name);

}  // namespace profd
