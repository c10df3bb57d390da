// `profctl ship` as a whole: a thread for each endpoint, so that a slow one delays no other, one
// that writes what they report for `profctl status`, and one for /metrics.

#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "ctl/client/client.h"
#include "ctl/ship/ship_config.h"
#include "formats/base/result.h"

namespace profd {

// Called by any thread of run_ship(), with a whole line.
using ShipLog = std::function<void(const std::string& line)>;

// Until it is tried again to listen for /metrics.
inline constexpr std::chrono::milliseconds kMetricsPause{30'000};

struct ShipPlaces {
  std::string state_directory;    // is made where only it itself is absent; mode 0700
  std::string runtime_directory;  // of ship_status.h; ship works without it
};

// Until `stop_fd` is readable. What is being sent then is sent to its end if the endpoint takes
// it. An error: nothing was started. `client` is asked for others of its kind alone. Where /metrics
// can't be served, windows are sent all the same, and it is tried again after each `metrics_pause`.
[[nodiscard]] Result<void> run_ship(const ShipConfig& config, const ShipPlaces& places,
                                    const Client& client, int stop_fd, const ShipLog& log,
                                    std::chrono::milliseconds metrics_pause = kMetricsPause);

}  // namespace profd
