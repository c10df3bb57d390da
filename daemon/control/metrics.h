// What GET /metrics says: the figures of status, for Prometheus.
//
// A caller sees what status shows them. Labels are profd's own words, reasons and a version, never
// a name that a process gave itself: so the number of series is bounded, and nobody writes into a
// scraper's database.

#pragma once

#include <string>

#include "formats/api/status_info.h"

namespace profd {

// A series for each reason there is, also where its count is 0: a counter that only appears with
// its first count has no rate.
[[nodiscard]] std::string metrics_of(StatusInfo status);

}  // namespace profd
