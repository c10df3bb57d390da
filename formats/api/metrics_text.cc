#include "formats/api/metrics_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace profd {
namespace {

// The shortest text that reads back as the same number.
std::string number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string whole_or_number(double value) {
  constexpr double kMaxWhole = 9007199254740992;  // 2^53
  const bool is_whole = value >= 0 && value <= kMaxWhole && std::trunc(value) == value;
  return is_whole ? std::to_string(static_cast<std::uint64_t>(value)) : number(value);
}

// Quotes are escaped in label values only.
std::string escaped(std::string_view text, bool with_quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (with_quotes && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view help, std::string_view type) {
  text_.append("# HELP ").append(name).append(" ").append(escaped(help, false)).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void MetricsText::series(std::string_view name, const std::string& value) {
  text_.append(name).append(" ").append(value).append("\n");
}

void MetricsText::series(std::string_view name, std::string_view label,
                         std::string_view label_value, const std::string& value) {
  text_.append(name).append("{").append(label).append("=\"");
  text_.append(escaped(label_value, true)).append("\"} ").append(value).append("\n");
}

void MetricsText::series(std::string_view name, const std::vector<MetricSeries>& all) {
  for (const MetricSeries& one : all) {
    std::string labels;
    for (const auto& [label, value] : one.labels) {
      labels.append(labels.empty() ? "{" : ",").append(label).append("=\"");
      labels.append(escaped(value, true)).append("\"");
    }
    if (!labels.empty()) labels += "}";
    text_.append(name).append(labels).append(" ").append(whole_or_number(one.value)).append("\n");
  }
}

void MetricsText::counter(std::string_view name, std::string_view help, std::uint64_t value) {
  family(name, help, "counter");
  series(name, std::to_string(value));
}

void MetricsText::counter(std::string_view name, std::string_view help, double value) {
  family(name, help, "counter");
  series(name, number(value));
}

void MetricsText::counter(std::string_view name, std::string_view help, std::string_view label,
                          const CountsByReason& values) {
  family(name, help, "counter");
  for (const auto& [reason, count] : values) series(name, label, reason, std::to_string(count));
}

void MetricsText::gauge(std::string_view name, std::string_view help, std::uint64_t value) {
  family(name, help, "gauge");
  series(name, std::to_string(value));
}

void MetricsText::gauge(std::string_view name, std::string_view help, double value) {
  family(name, help, "gauge");
  series(name, number(value));
}

void MetricsText::counter(std::string_view name, std::string_view help,
                          const std::vector<MetricSeries>& all) {
  family(name, help, "counter");
  series(name, all);
}

void MetricsText::gauge(std::string_view name, std::string_view help,
                        const std::vector<MetricSeries>& all) {
  family(name, help, "gauge");
  series(name, all);
}

void MetricsText::info(std::string_view name, std::string_view help, std::string_view label,
                       std::string_view value) {
  family(name, help, "gauge");
  series(name, label, value, "1");
}

}  // namespace profd
