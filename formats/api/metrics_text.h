// The Prometheus text format, version 0.0.4 ("Exposition formats" in the documentation of
// Prometheus): the answer to GET /metrics.
//
//     # HELP profd_samples_lost_total Samples that were taken and lost, by reason.
//     # TYPE profd_samples_lost_total counter
//     profd_samples_lost_total{reason="ring_full"} 4
//
// The names of counters end in _total, after the base unit (_seconds, _bytes).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/api/session_summary.h"

namespace profd {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// One series of a family. Whole numbers up to 2^53 are written as such.
struct MetricSeries {
  std::vector<std::pair<std::string_view, std::string>> labels;  // names and values, in this order
  double value = 0;
};

// Appends families, each with all its series. `name` and `label` consist of [a-zA-Z0-9_] and are
// not escaped; help texts and label values may be any text.
class MetricsText {
 public:
  void counter(std::string_view name, std::string_view help, std::uint64_t value);
  void counter(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, std::string_view label,
               const CountsByReason& values);
  void gauge(std::string_view name, std::string_view help, std::uint64_t value);
  void gauge(std::string_view name, std::string_view help, double value);

  void counter(std::string_view name, std::string_view help, const std::vector<MetricSeries>& all);
  void gauge(std::string_view name, std::string_view help, const std::vector<MetricSeries>& all);

  // A gauge of 1 whose label carries the information.
  void info(std::string_view name, std::string_view help, std::string_view label,
            std::string_view value);

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void family(std::string_view name, std::string_view help, std::string_view type);
  void series(std::string_view name, const std::string& value);
  void series(std::string_view name, std::string_view label, std::string_view label_value,
              const std::string& value);
  void series(std::string_view name, const std::vector<MetricSeries>& all);

  std::string text_;
};

}  // namespace profd
