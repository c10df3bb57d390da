#include "ctl/ship/endpoint_report.h"

#include <chrono>

#include "formats/api/history_api.h"
#include "formats/base/json_members.h"
#include "formats/base/time_text.h"

namespace profd {

// The members of its ShipState are members of the report.
void members(auto& fields, Is<EndpointReport> auto& report) {
  auto& state = report.state;
  fields.required("name", report.name)
      .required("kind", report.kind)
      .optional("url", report.url)  // an older ship has none
      .required("window", state.window)
      .required("waiting", report.waiting)
      .required("in_flight", state.in_flight)
      .required("failing_since", report.failing_since)
      .required("last_error", report.last_error)
      .required("last_error_at", report.last_error_at)
      .optional("asked_at", report.asked_at)  // the same
      .required("windows_sent", state.windows_sent)
      .required("windows_unknown", state.windows_unknown)
      .required("windows_dropped", state.windows_dropped)
      .required("profiles_sent", state.profiles_sent)
      .required("profiles_dropped", state.profiles_dropped)
      .required("bytes_sent", state.bytes_sent)
      .required("bytes_dropped", state.bytes_dropped)
      .required("rows_dropped", state.rows_dropped)
      .required("services_other", state.services_other)
      .optional("series_joined", state.series_joined);  // the same
}

std::string utc_text_of(ShipTime time) {
  return utc_text(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

std::optional<double> lag_seconds(const EndpointReport& report, ShipTime now) {
  const std::string& window = report.waiting.empty() ? report.state.window : report.waiting;
  const auto start = start_of_window(window);
  if (!start) return std::nullopt;
  const auto lag = std::chrono::duration_cast<std::chrono::milliseconds>(now - *start);
  return static_cast<double>(lag.count()) / 1000;
}

std::map<std::string, std::uint64_t> windows_lost(const EndpointReport& report) {
  auto lost = report.state.windows_dropped;
  if (report.state.windows_unknown != 0) lost["unknown"] += report.state.windows_unknown;
  return lost;
}

boost::json::value json_of(const EndpointReport& report) { return write_members(report); }

Result<EndpointReport> parse_endpoint_report(std::string_view json) {
  return parse_as<EndpointReport>(json);
}

}  // namespace profd
