#include "formats/base/time_text.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <regex>

#include "formats/base/errors.h"

namespace profd {
namespace {

using std::chrono::milliseconds;

struct TimeUnit {
  std::string_view name;
  double ms;
};
// The start of a name stands for the first unit that has it, an empty one for seconds.
constexpr auto kTimeUnits = std::to_array<TimeUnit>({{"seconds", 1e3},
                                                     {"minutes", 60e3},
                                                     {"msec", 1},
                                                     {"hours", 3600e3},
                                                     {"hr", 3600e3},
                                                     {"days", 86400e3},
                                                     {"weeks", 604800e3}});

std::optional<milliseconds> read_span(std::string text) {
  static const std::regex term_form(R"((\d{1,15}(?:\.\d{1,9})?) {0,3}([a-z]{0,8}) {0,3})");
  constexpr double kMaxMs = 1e15;
  double sum = 0;
  if (text.empty() || text.ends_with(' ')) return std::nullopt;
  for (std::smatch term; !text.empty(); text = term.suffix().str()) {
    if (!std::regex_search(text, term, term_form, std::regex_constants::match_continuous)) {
      return std::nullopt;
    }
    const auto* const unit = std::ranges::find_if(
        kTimeUnits, [&](const TimeUnit& known) { return known.name.starts_with(term.str(2)); });
    if (unit == kTimeUnits.end()) return std::nullopt;
    sum += std::stod(term.str(1)) * unit->ms;
  }
  if (sum > kMaxMs) return std::nullopt;
  return milliseconds(std::llround(sum));
}

time_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

using FieldsOf = tm* (*)(const time_t*, tm*);  // localtime_r or gmtime_r

std::string formatted(time_t seconds, FieldsOf fields_of, const char* format) {
  std::array<char, 32> text{};
  tm fields{};
  fields_of(&seconds, &fields);
  return {text.data(), std::strftime(text.data(), text.size(), format, &fields)};
}

std::optional<tm> parsed(const std::string& text, const char* format) {
  tm fields{};
  const char* const end = ::strptime(text.c_str(), format, &fields);
  return end != nullptr && *end == '\0' ? std::optional(fields) : std::nullopt;
}

// The pattern has the number of digits, which strptime() does not check.
std::optional<WallTime> read_date_and_clock(const std::string& text, WallTime now) {
  static const std::regex point_form(
      R"((?:(?:([A-Za-z]{3,9}) )?(\d{4}-\d\d-\d\d)(?:[ T](?=\d)|$))?)"
      R"((?:(\d\d:\d\d)(?:(:\d\d)(\.\d{1,9})?)?(?:(Z| UTC)|([+-](?:[01]\d|2[0-3]):[0-5]\d))?)?)");
  std::smatch part;
  if (text.empty() || !std::regex_match(text, part, point_form)) return std::nullopt;
  const auto part_or = [&](std::size_t i, const std::string& other) {
    return part[i].matched ? part.str(i) : other;
  };
  const std::string date = part_or(2, formatted(seconds_of(now), ::localtime_r, "%F"));
  const auto read =
      parsed(date + " " + part_or(3, "00:00") + part_or(4, ":00"), "%Y-%m-%d %H:%M:%S");
  const auto zone = parsed(part_or(7, "+00:00"), "%z");
  const auto weekday = parsed(part_or(1, "Sun"), "%a");
  if (!read || !zone || !weekday) return std::nullopt;
  tm real = *read;
  real.tm_isdst = -1;
  const bool has_zone = part[6].matched || part[7].matched;
  const time_t seconds = has_zone ? ::timegm(&real) - zone->tm_gmtoff : ::mktime(&real);
  // mktime() and timegm() turn a time that does not exist into another one. Where no clock is
  // given, the day may begin at 01:00.
  const bool is_other_clock = real.tm_hour != read->tm_hour || real.tm_min != read->tm_min;
  if (real.tm_mday != read->tm_mday || (part[3].matched && is_other_clock)) return std::nullopt;
  if (part[1].matched && weekday->tm_wday != real.tm_wday) return std::nullopt;
  const int fraction_ms = std::stoi((part.str(5) + "000").substr(1, 3));
  return WallTime(std::chrono::seconds(seconds)) + milliseconds(fraction_ms);
}

std::optional<WallTime> start_of_day(WallTime time) {
  return read_date_and_clock(formatted(seconds_of(time), ::localtime_r, "%F"), time);
}

std::optional<WallTime> read_point(const std::string& text, WallTime now) {
  static const std::regex since_1970_form(R"(@(\d{1,11}(?:\.\d{1,9})?))");
  constexpr std::string_view kAgo = " ago";
  std::smatch part;
  if (text == "now") return now;
  if (text == "today") return start_of_day(now);
  if (text == "yesterday") {
    const auto today = start_of_day(now);
    return today ? start_of_day(*today - std::chrono::hours(12)) : std::nullopt;
  }
  if (std::regex_match(text, part, since_1970_form)) {
    return WallTime(milliseconds(std::llround(std::stod(part.str(1)) * 1000)));
  }
  const bool is_ago = text.ends_with(kAgo);
  if (!is_ago && !text.starts_with('-')) return read_date_and_clock(text, now);
  const auto span = read_span(is_ago ? text.substr(0, text.size() - kAgo.size()) : text.substr(1));
  return span ? std::optional(now - *span) : std::nullopt;
}

}  // namespace

Result<WallTime> parse_time_text(const std::string& text, WallTime now) {
  const auto time = read_point(text, now);
  if (time && *time >= WallTime{}) return *time;
  return fail(
      ErrorCode::kInvalidArgument,
      "cannot parse time '" + text + "'" + (read_span(text) ? "; did you mean -" + text + "?" : ""),
      "give \"2026-11-20 14:05\", 14:05, today, yesterday, -10m, \"1h 30min ago\", "
      "2026-11-20T14:05:00Z or @SECONDS");
}

Result<milliseconds> parse_time_span(const std::string& text) {
  const auto span = read_span(text);
  if (span && span->count() >= 1) return *span;
  return invalid_argument("cannot parse time span '" + text + "'",
                          "give numbers with ms, s, m, h, d or w, for example 10m or 1h30m");
}

TimeForm time_form_of(const std::string& text) {
  constexpr std::size_t kLongestTime = 64;
  if (text.size() > kLongestTime) return TimeForm::kNone;
  if (text.find_first_not_of("0123456789.,") == std::string::npos) return TimeForm::kNone;
  if (parse_time_span(text)) return TimeForm::kSpan;
  const auto now = std::chrono::floor<milliseconds>(std::chrono::system_clock::now());
  return parse_time_text(text, now) ? TimeForm::kPoint : TimeForm::kNone;
}

std::string quoted_time(const std::string& time) {
  return time.find(' ') == std::string::npos ? time : "\"" + time + "\"";
}

std::string local_time_text(WallTime time) {
  return formatted(std::chrono::round<std::chrono::seconds>(time).time_since_epoch().count(),
                   ::localtime_r, "%Y-%m-%d %H:%M:%S");
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  return formatted(std::chrono::system_clock::to_time_t(time), ::gmtime_r, "%Y-%m-%dT%H:%M:%SZ");
}

}  // namespace profd
