#include "formats/base/time_text.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace profd {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kDigits = "0123456789";

// Removes the longest front of `text` that consists of `characters`, and returns it.
std::string_view take_all_of(std::string_view& text, std::string_view characters) {
  const std::string_view taken = text.substr(0, text.find_first_not_of(characters));
  text.remove_prefix(taken.size());
  return taken;
}

bool take(std::string_view& text, std::string_view front) {
  const bool is_there = text.starts_with(front);
  if (is_there) text.remove_prefix(front.size());
  return is_there;
}

std::optional<double> take_decimal(std::string_view& text) {
  const std::string_view digits = take_all_of(text, "0123456789.");
  double number = 0;
  const auto [end, error] =
      std::from_chars(digits.begin(), digits.end(), number, std::chars_format::fixed);
  return error == std::errc() && end == digits.end() ? std::optional(number) : std::nullopt;
}

// Takes a front of `shape`, in which 0 stands for a digit. strptime() alone would also accept fewer
// digits and leading blanks.
bool take_fields(std::string_view& text, std::string_view shape, const char* format, tm& fields) {
  const std::string front(text.substr(0, shape.size()));
  std::string front_shape = front;
  std::ranges::replace_if(
      front_shape, [](char c) { return kDigits.find(c) != kDigits.npos; }, '0');
  if (front_shape != shape) return false;
  const char* const end = ::strptime(front.c_str(), format, &fields);
  if (end == nullptr || *end != '\0') return false;
  text.remove_prefix(front.size());
  return true;
}

struct Unit {
  std::string_view name;
  double ms;
};
// The start of a name stands for the first unit that has it, an empty one for seconds.
constexpr auto kUnits = std::to_array<Unit>({{"seconds", 1e3},
                                             {"minutes", 60e3},
                                             {"msec", 1},
                                             {"hours", 3600e3},
                                             {"hr", 3600e3},
                                             {"days", 86400e3},
                                             {"weeks", 604800e3}});

std::optional<milliseconds> read_span(std::string_view text) {
  constexpr double kMaxMs = 1e15;
  double sum = 0;
  if (text.ends_with(' ')) return std::nullopt;
  do {
    const auto number = take_decimal(text);
    take_all_of(text, " ");
    const std::string_view name = take_all_of(text, "abcdefghijklmnopqrstuvwxyz");
    take_all_of(text, " ");
    const auto* const unit = std::ranges::find_if(
        kUnits, [name](const Unit& known) { return known.name.starts_with(name); });
    if (!number || unit == kUnits.end()) return std::nullopt;
    sum += *number * unit->ms;
  } while (!text.empty());
  if (sum > kMaxMs) return std::nullopt;
  return milliseconds(std::llround(sum));
}

tm local_fields(WallTime time) {
  const time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  tm fields{};
  ::localtime_r(&seconds, &fields);
  return fields;
}

std::string formatted(const tm& fields, const char* format) {
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &fields)};
}

// "Sat " or "Saturday ", in any case.
std::optional<int> take_weekday(std::string_view& text) {
  const std::string word(text.substr(0, text.find(' ')));
  tm fields{};
  const char* const end = ::strptime(word.c_str(), "%a", &fields);
  if (end == nullptr || *end != '\0') return std::nullopt;
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return fields.tm_wday;
}

// The seconds by which the zone is ahead of UTC; none for local time.
std::optional<long> take_zone(std::string_view& text) {
  tm fields{};
  if (take(text, "Z") || take(text, " UTC")) return 0;
  const bool is_there =
      take_fields(text, "+00:00", "%z", fields) || take_fields(text, "-00:00", "%z", fields);
  return is_there ? std::optional(fields.tm_gmtoff) : std::nullopt;
}

// mktime() and timegm() turn a time that does not exist into another one. A day may begin at 01:00.
bool is_same(const tm& read, const tm& real, bool has_clock) {
  return real.tm_mday == read.tm_mday &&
         (!has_clock || (real.tm_hour == read.tm_hour && real.tm_min == read.tm_min));
}

std::optional<WallTime> read_date_and_clock(std::string_view text, WallTime now) {
  constexpr long kMaxOffset = 24L * 3600;
  tm read = local_fields(now);
  read.tm_hour = read.tm_min = read.tm_sec = 0;
  read.tm_isdst = -1;
  const auto weekday = take_weekday(text);
  const bool has_date = take_fields(text, "0000-00-00", "%Y-%m-%d", read);
  const bool has_clock = !has_date || take(text, " ") || take(text, "T");
  std::optional<double> fraction = 0;
  std::optional<long> offset;
  if (has_clock) {
    const bool has_seconds = take_fields(text, "00:00:00", "%H:%M:%S", read);
    if (!has_seconds && !take_fields(text, "00:00", "%H:%M", read)) return std::nullopt;
    if (has_seconds && text.starts_with('.')) fraction = take_decimal(text);
    offset = take_zone(text);
  }
  tm real = read;
  const time_t seconds = offset ? ::timegm(&real) - *offset : ::mktime(&real);
  const bool is_wrong_day = weekday && (!has_date || *weekday != real.tm_wday);
  if (!text.empty() || !fraction || is_wrong_day || !is_same(read, real, has_clock) ||
      std::abs(offset.value_or(0)) >= kMaxOffset) {
    return std::nullopt;
  }
  return WallTime(std::chrono::seconds(seconds)) + milliseconds(static_cast<int>(*fraction * 1000));
}

std::optional<WallTime> read_seconds_since_1970(std::string_view text) {
  constexpr double kMaxSeconds = 1e11;
  const auto seconds = take_decimal(text);
  if (!seconds || !text.empty() || *seconds > kMaxSeconds) return std::nullopt;
  return WallTime(milliseconds(std::llround(*seconds * 1000)));
}

std::optional<WallTime> start_of_day(WallTime time) {
  return read_date_and_clock(formatted(local_fields(time), "%Y-%m-%d"), time);
}

std::optional<WallTime> read_past(std::string_view span, WallTime now) {
  const auto ago = read_span(span);
  return ago ? std::optional(now - *ago) : std::nullopt;
}

std::optional<WallTime> read_point(std::string_view text, WallTime now) {
  constexpr std::string_view kAgo = " ago";
  if (text == "now") return now;
  if (text == "today") return start_of_day(now);
  if (text == "yesterday") {
    const auto today = start_of_day(now);
    return today ? start_of_day(*today - std::chrono::hours(12)) : std::nullopt;
  }
  if (take(text, "@")) return read_seconds_since_1970(text);
  if (text.starts_with('-')) return read_past(text.substr(1), now);
  if (text.ends_with(kAgo)) return read_past(text.substr(0, text.size() - kAgo.size()), now);
  return read_date_and_clock(text, now);
}

}  // namespace

Result<WallTime> parse_time_text(std::string_view text, WallTime now) {
  const auto time = read_point(text, now);
  if (time && *time >= WallTime{}) return *time;
  const std::string quoted(text);
  return fail(ErrorCode::kInvalidArgument,
              "cannot parse time '" + quoted + "'" +
                  (read_span(text) ? "; did you mean -" + quoted + "?" : ""),
              "give \"2026-11-20 14:05\", 14:05, today, yesterday, -10m, \"1h 30min ago\", "
              "2026-11-20T14:05:00Z or @SECONDS");
}

Result<milliseconds> parse_time_span(std::string_view text) {
  const auto span = read_span(text);
  if (span && span->count() >= 1) return *span;
  return fail(ErrorCode::kInvalidArgument, "cannot parse time span '" + std::string(text) + "'",
              "give numbers with ms, s, m, h, d or w, for example 10m or 1h30m");
}

std::string local_time_text(WallTime time) {
  return formatted(local_fields(time), "%Y-%m-%d %H:%M:%S");
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm fields{};
  ::gmtime_r(&seconds, &fields);
  return formatted(fields, "%Y-%m-%dT%H:%M:%SZ");
}

}  // namespace profd
