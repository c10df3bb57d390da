// What /metrics of `profctl ship` serves: the daemon's text, and what endpoints do.

#pragma once

#include <string>
#include <vector>

#include "ctl/ship/endpoint_report.h"
#include "ctl/ship/ship_state.h"
#include "formats/base/result.h"

namespace profd {

// `daemon` is its answer to GET /metrics, which comes first. Without one, profd_up is 0. The
// counters of `reports` are those since this process began (counted_since()).
[[nodiscard]] std::string ship_metrics(const Result<std::string>& daemon,
                                       const std::vector<EndpointReport>& reports, ShipTime now);

}  // namespace profd
