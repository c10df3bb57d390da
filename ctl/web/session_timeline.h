// The seconds of a session, as windows of a timeline, with the parts of each second for a heat map.

#pragma once

#include <cstdint>
#include <vector>

#include "ctl/views/samples.h"
#include "formats/api/history_api.h"

namespace profd {

// A second of a session, or a window of the history.
struct TimedWindow {
  std::uint64_t since_ms = 0;
  std::uint64_t until_ms = 0;
  WindowShares shares;
  // Samples by part of the second, of kTickMs each; empty: the window has no parts.
  std::vector<std::uint32_t> parts{};
};

// From the start on, up to where the times of the samples are complete. Empty: they have no times.
[[nodiscard]] std::vector<TimedWindow> seconds_of_session(const Samples& samples);

// Keeps the samples that were taken in the range. Nothing changes where they have no times, and
// none: the range is all time.
void keep_range(const TimeRange& range, Samples& samples);

}  // namespace profd
