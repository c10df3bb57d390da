#include "ctl/output/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "ctl/output/console.h"
#include "ctl/output/terminal.h"
#include "formats/base/time_text.h"

namespace profd {

std::string duration_text(double seconds) {
  constexpr auto kUnits = std::to_array<std::pair<std::uint64_t, std::string_view>>(
      {{86400, " d"}, {3600, " h"}, {60, " min"}, {1, " s"}});
  auto rest = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e15));
  std::string text;
  int units = 0;
  for (const auto& [length, name] : kUnits) {
    const std::uint64_t count = rest / length;
    rest %= length;
    if (count == 0 && units == 0 && length > 1) continue;
    if (count > 0 || units == 0) {
      text.append(units == 0 ? "" : " ").append(std::to_string(count)).append(name);
    }
    if (++units == 2) break;
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr auto kUnits = std::to_array<std::string_view>({"KiB", "MiB", "GiB", "TiB"});
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double number = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return decimal_text(number, 1) + " " + std::string(kUnits[unit]);
}

std::string decimal_text(double number, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << number;
  return text.str();
}

std::string percent_text(double percent) { return decimal_text(percent, 1) + " %"; }

std::string cpu_text(double percent) {
  constexpr double kLarge = 100;
  return decimal_text(percent, percent < kLarge ? 1 : 0) + " %";
}

std::string bar_text(double part, std::size_t columns) {
  constexpr auto kEighths = std::to_array<std::string_view>(
      {"", "\u258F", "\u258E", "\u258D", "\u258C", "\u258B", "\u258A", "\u2589"});
  constexpr std::size_t kParts = kEighths.size();
  const double wanted = std::clamp(part, 0.0, 1.0) * static_cast<double>(columns * kParts);
  const auto eighths = static_cast<std::size_t>(std::llround(wanted));
  std::string bar;
  for (std::size_t i = 0; i < eighths / kParts; ++i) bar += "\u2588";
  bar += kEighths[eighths % kParts];
  return bar;
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string counts_text(const CountsByReason& counts) { return printable(text_of(counts)); }

std::string local_text(const std::string& utc) {
  const auto time = parse_utc(utc);
  if (!time) return printable(utc);
  return local_time_text(WallTime(std::chrono::seconds(*time)));
}

std::optional<std::int64_t> parse_utc(const std::string& text) {
  const auto time = parse_time_text(text, WallTime{});
  if (!time || !text.ends_with('Z')) return std::nullopt;
  return std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count();
}

void print_table(TableRows rows, std::ostream& out) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i]);
      widths[i] = std::max(widths[i], columns_of(row[i]));
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - columns_of(row[i]) + 2, ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

}  // namespace profd
