#include "formats/base/quantity_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace profd {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t size;
};

// Each list from the smallest to the largest.
constexpr auto kDurationUnits = std::to_array<Unit>(
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}});
constexpr auto kByteUnits = std::to_array<Unit>({{"B", 1},
                                                 {"KiB", std::uint64_t{1} << 10},
                                                 {"MiB", std::uint64_t{1} << 20},
                                                 {"GiB", std::uint64_t{1} << 30},
                                                 {"TiB", std::uint64_t{1} << 40}});
constexpr double kMostMilliseconds = 86'400'000.0 * 36'525;
constexpr double kMostBytes = 9.2e18;

// In the smallest unit.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto unit = std::ranges::find(units, text.substr(digits), &Unit::name);
  if (unit == units.end()) return std::nullopt;
  double number = 0;
  const char* const end = text.data() + digits;
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number * static_cast<double>(unit->size);
}

std::string exact_text(std::uint64_t value, std::span<const Unit> units) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (value != 0 && value % units[i].size == 0) best = i;
  }
  return std::to_string(value / units[best].size) + std::string(units[best].name);
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const std::optional<double> milliseconds = parse_quantity(text, kDurationUnits);
  if (!milliseconds || *milliseconds > kMostMilliseconds) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*milliseconds));
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const std::optional<double> bytes = parse_quantity(text, kByteUnits);
  if (!bytes || *bytes > kMostBytes) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

std::string exact_duration_text(std::chrono::milliseconds duration) {
  return exact_text(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string exact_bytes_text(std::uint64_t bytes) { return exact_text(bytes, kByteUnits); }

}  // namespace profd
