#include "ctl/ship/ship_metrics.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "formats/api/history_api.h"
#include "formats/api/metrics_text.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

// Those that have a series before the first loss.
constexpr auto kWindowReasons =
    std::to_array<std::string_view>({"gone", "in_future", "invalid_labels", "malformed", "refused",
                                     "too_large", "too_old", "unknown", "unreadable"});
constexpr auto kProfileReasons = std::to_array<std::string_view>(
    {"ended", "invalid_labels", "malformed", "refused", "too_large", "too_old", "unknown"});

using Reports = std::vector<EndpointReport>;

// A series for each endpoint.
template <class Value>
std::vector<MetricSeries> each_endpoint(const Reports& reports, Value value_of) {
  std::vector<MetricSeries> all;
  all.reserve(reports.size());
  for (const EndpointReport& report : reports) {
    all.push_back(
        {.labels = {{"endpoint", report.name}}, .value = static_cast<double>(value_of(report))});
  }
  return all;
}

// A series for each endpoint and reason.
template <class Counts>
std::vector<MetricSeries> each_reason(const Reports& reports,
                                      std::span<const std::string_view> known, Counts counts_of) {
  std::vector<MetricSeries> all;
  for (const EndpointReport& report : reports) {
    std::map<std::string, std::uint64_t> counts = counts_of(report);
    for (const std::string_view reason : known) counts.try_emplace(std::string(reason), 0);
    all.reserve(all.size() + counts.size());
    for (const auto& [reason, count] : counts) {
      all.push_back({.labels = {{"endpoint", report.name}, {"reason", reason}},
                     .value = static_cast<double>(count)});
    }
  }
  return all;
}

// Seconds since 1970; 0 where there is none, as is usual in Prometheus.
double seconds_of(const std::string& rfc3339) {
  const auto time = parse_time_text(rfc3339, WallTime{});
  return time ? std::chrono::duration<double>(time->time_since_epoch()).count() : 0;
}

double start_seconds(const std::string& window) {
  const auto start = start_of_window(window);
  return start ? std::chrono::duration<double>(start->time_since_epoch()).count() : 0;
}

void add_health(MetricsText& out, const Reports& reports, ShipTime now) {
  out.gauge("profd_ship_window_timestamp_seconds",
            "Start of the newest window that is done; 0 if there is none.",
            each_endpoint(reports, [](const EndpointReport& one) {
              return start_seconds(one.state.window);
            }));
  out.gauge("profd_ship_lag_seconds",
            "Age of the oldest window that waits, or of the newest one that is done.",
            each_endpoint(reports, [now](const EndpointReport& one) {
              return lag_seconds(one, now).value_or(0);
            }));
  out.gauge("profd_ship_failing", "1 if the endpoint fails now.",
            each_endpoint(reports, [](const EndpointReport& one) {
              return one.failing_since.empty() ? 0 : 1;
            }));
  out.gauge("profd_ship_failing_since_timestamp_seconds",
            "Since when the endpoint fails; 0 if it works.",
            each_endpoint(reports,
                          [](const EndpointReport& one) { return seconds_of(one.failing_since); }));
  out.gauge("profd_ship_last_error_timestamp_seconds",
            "Time of the last error; 0 if there was none.",
            each_endpoint(reports,
                          [](const EndpointReport& one) { return seconds_of(one.last_error_at); }));
}

void add_sent(MetricsText& out, const Reports& reports) {
  out.counter(
      "profd_ship_windows_sent_total", "Windows that were sent, whole or in part.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.windows_sent; }));
  out.counter(
      "profd_ship_profiles_sent_total", "Profiles that the endpoint has stored.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.profiles_sent; }));
  out.counter(
      "profd_ship_sent_bytes_total", "Size of these profiles, not packed.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.bytes_sent; }));
  out.counter(
      "profd_ship_other_services_total", "Services of windows that were sent as the service other.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.services_other; }));
  out.counter(
      "profd_ship_joined_series_total",
      "Series of windows that were sent together with others of their service, without labels.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.series_joined; }));
}

void add_losses(MetricsText& out, const Reports& reports) {
  out.counter("profd_ship_windows_dropped_total",
              "Windows of which nothing was stored, or may not have been.",
              each_reason(reports, kWindowReasons,
                          [](const EndpointReport& one) { return windows_lost(one); }));
  out.counter("profd_ship_profiles_dropped_total",
              "Profiles that were not sent, or may not have arrived; of windows that were read.",
              each_reason(reports, kProfileReasons,
                          [](const EndpointReport& one) { return one.state.profiles_dropped; }));
  out.counter("profd_ship_dropped_bytes_total", "Size of these profiles, not packed.",
              each_reason(reports, kProfileReasons,
                          [](const EndpointReport& one) { return one.state.bytes_dropped; }));
  out.counter(
      "profd_ship_rows_dropped_total", "Rows of windows (stacks of a process) that a rule drops.",
      each_endpoint(reports, [](const EndpointReport& one) { return one.state.rows_dropped; }));
}

}  // namespace

std::string ship_metrics(const Result<std::string>& daemon, const Reports& reports, ShipTime now) {
  std::string text = daemon ? *daemon : "";
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  MetricsText out;
  out.gauge("profd_up", "1 if profd answers.", std::uint64_t{daemon ? 1U : 0U});
  out.info("profd_ship_build_info", "The version of profctl ship.", "version", PROFD_VERSION);
  add_health(out, reports, now);
  add_sent(out, reports);
  add_losses(out, reports);
  return text + out.text();
}

}  // namespace profd
