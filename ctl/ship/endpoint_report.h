// What an operator sees of an endpoint: its position, what was sent and lost, and whether it fails.
//
// A report goes from the thread of the endpoint to /metrics and, as a file, to `profctl status`,
// which takes its texts for those of anybody.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "ctl/ship/ship_state.h"
#include "formats/base/result.h"

namespace profd {

struct EndpointReport {
  std::string name;
  std::string kind;           // "pyroscope"
  std::string url;            // without a secret; "": not known
  ShipState state;            // its position and its counters
  std::string waiting;        // the oldest window that is not done; "": none is known
  std::string failing_since;  // RFC 3339, UTC; "": it works
  std::string last_error;     // with its hint; "": there was none
  std::string last_error_at;  // RFC 3339, UTC
  std::string asked_at;       // RFC 3339, UTC: of the request under way; "": none is

  friend bool operator==(const EndpointReport&, const EndpointReport&) = default;
};

// RFC 3339 in UTC, to the second.
[[nodiscard]] std::string utc_text_of(ShipTime time);

// How far the endpoint is behind the present: the age of the oldest window that waits, by its
// start; where none waits, of the newest one that is done. None where no window is known.
[[nodiscard]] std::optional<double> lag_seconds(const EndpointReport& report, ShipTime now);

// How many windows were lost, by reason: those that were in flight when profctl ended are
// "unknown".
[[nodiscard]] std::map<std::string, std::uint64_t> windows_lost(const EndpointReport& report);

[[nodiscard]] boost::json::value json_of(const EndpointReport& report);
[[nodiscard]] Result<EndpointReport> parse_endpoint_report(std::string_view json);

}  // namespace profd
