#include "ctl/commands/ship_reports.h"

#include <algorithm>
#include <chrono>
#include <ostream>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "ctl/output/console.h"
#include "ctl/output/text.h"
#include "formats/api/history_api.h"
#include "formats/base/json_members.h"
#include "formats/base/json_text.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

constexpr const char* kIndent = "           ";

// An endpoint that takes longer to answer is shown to be slow.
constexpr std::chrono::seconds kUsualAnswer{5};

std::string life_text(const ShipStatus& ship) {
  const std::string last =
      ship.written_at.empty() ? "" : "; its last status is of " + local_text(ship.written_at);
  switch (ship.life) {
    case ShipStatus::Life::kRuns:
      return "running, " + counted(ship.endpoints.size(), "endpoint");
    case ShipStatus::Life::kHangs:
      return "its process is there, but does not go on" + last;
    case ShipStatus::Life::kEnded:
      break;
  }
  return "not running" + last;
}

// "2026-01-02 14:05:00", the local time at which a window starts.
std::string window_start_text(const std::string& name) {
  const auto start = start_of_window(name);
  if (!start) return printable(name);
  return local_time_text(std::chrono::floor<std::chrono::milliseconds>(*start));
}

// "done up to the window of 2026-01-02 14:05:00, 65 s behind"
std::string position_text(const EndpointReport& report, ShipTime now) {
  std::string text = report.state.window.empty()
                         ? "no window is done"
                         : "done up to the window of " + window_start_text(report.state.window);
  if (const auto lag = lag_seconds(report, now)) {
    text += ", " + duration_text(std::max(*lag, 0.0)) + " behind";
  }
  if (!report.state.in_flight.empty()) {
    text += "; that of " + window_start_text(report.state.in_flight) + " is in flight";
  }
  return text;
}

void print_ship_losses(const EndpointReport& report, std::ostream& out) {
  const ShipState& state = report.state;
  const CountsByReason windows = windows_lost(report);
  if (!windows.empty()) {
    out << kIndent << "windows not sent: " << counts_text(windows) << "\n";
  }
  if (!state.profiles_dropped.empty()) {
    out << kIndent << "profiles not sent: " << counts_text(state.profiles_dropped) << ", "
        << bytes_text(sum_of(state.bytes_dropped)) << "\n";
  }
  if (state.rows_dropped != 0) {
    out << kIndent << counted(state.rows_dropped, "row") << " of windows dropped by rules\n";
  }
  if (state.services_other != 0) {
    out << kIndent << counted(state.services_other, "service")
        << " of windows sent as other, over max_services\n";
  }
  if (state.series_joined != 0) {
    out << kIndent << state.series_joined
        << " series of windows sent without their labels, over twice max_services\n";
  }
}

// "pyroscope, http://127.0.0.1:4040"
std::string destination_text(const EndpointReport& report) {
  return printable(report.kind) + (report.url.empty() ? "" : ", " + printable(report.url));
}

bool is_slow(const EndpointReport& report, ShipTime now) {
  // In seconds: the year may be one that ShipTime can't have.
  const auto asked = parse_utc(report.asked_at);
  const auto present = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
  return asked && present.count() - *asked > kUsualAnswer.count();
}

void print_ship_endpoint(const EndpointReport& report, ShipTime now, std::ostream& out) {
  const ShipState& state = report.state;
  out << "endpoint   " << printable(report.name) << " (" << destination_text(report)
      << "): " << position_text(report, now) << "\n"
      << kIndent << counted(state.windows_sent, "window") << ", "
      << counted(state.profiles_sent, "profile") << ", " << bytes_text(state.bytes_sent)
      << " sent\n";
  print_ship_losses(report, out);
  if (!report.failing_since.empty()) {
    out << kIndent << "fails since " << local_text(report.failing_since) << "\n";
  }
  if (!report.last_error.empty()) {
    out << kIndent << "last error, " << local_text(report.last_error_at) << ": "
        << printable(report.last_error) << "\n";
  }
}

}  // namespace

void print_ship_status(const ShipStatus& ship, ShipTime now, std::ostream& out) {
  out << "ship       " << life_text(ship) << "\n";
  for (const EndpointReport& report : ship.endpoints) {
    print_ship_endpoint(report, now, out);
    // The request of a process that was killed has ended with it.
    if (ship.life == ShipStatus::Life::kEnded || !is_slow(report, now)) continue;
    out << kIndent << "waits for an answer since " << local_text(report.asked_at) << "\n";
  }
  for (const std::string& problem : ship.problems) {
    out << kIndent << "not read: " << printable(problem) << "\n";
  }
}

std::string status_json(const StatusInfo& status, const ShipStatus& ship, ShipTime now) {
  auto value = parse_json(to_json(status), kMaxJsonDepth);
  if (!value || !value->is_object()) return to_json(status);
  value->as_object().emplace("ship", json_of(ship, now));
  return json_text(*value);
}

}  // namespace profd
