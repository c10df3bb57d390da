#include "formats/base/time_text.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace profd {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kDigits = "0123456789";
constexpr WallTime kEnd{std::chrono::sys_days{std::chrono::year{10000} / 1 / 1}};

Error no_time(std::string_view text) {
  return fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" is no time",
              "give \"2026-11-20 14:05\", 14:05, today, yesterday, -10m, \"1h 30min ago\", "
              "2026-11-20T14:05:00Z or @SECONDS");
}

Error no_span(std::string_view text) {
  return fail(ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\" is no span of time",
              "give a number and ms, s, m, h, d or w, for example 10m or \"1h 30min\"");
}

// Takes pieces off the front of a text; after one that was not there, ok() is false for good.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : rest_(text) {}

  // Just so many digits.
  int number(std::size_t digits) {
    const std::string_view taken = rest_.substr(0, digits);
    int value = 0;
    ok_ = ok_ && taken.size() == digits && taken.find_first_not_of(kDigits) == taken.npos;
    if (ok_) std::from_chars(taken.data(), taken.data() + digits, value);
    rest_.remove_prefix(taken.size());
    return value;
  }

  void expect(char c) { ok_ = take(std::string_view(&c, 1)) && ok_; }

  bool take(std::string_view text) {
    const bool is_there = rest_.starts_with(text);
    if (is_there) rest_.remove_prefix(text.size());
    return is_there;
  }

  std::string_view take_all_of(std::string_view characters) {
    const std::string_view taken = rest_.substr(0, rest_.find_first_not_of(characters));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool is_done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::optional<double> decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> milliseconds_of_unit(std::string_view unit) {
  struct Unit {
    double ms;
    std::array<std::string_view, 5> names;  // the last ones may be empty
  };
  constexpr std::array<Unit, 6> kUnits = {{{1, {"ms", "msec"}},
                                           {1e3, {"s", "sec", "second", "seconds"}},
                                           {60e3, {"m", "min", "minute", "minutes"}},
                                           {3600e3, {"h", "hr", "hour", "hours"}},
                                           {86400e3, {"d", "day", "days"}},
                                           {7 * 86400e3, {"w", "week", "weeks"}}}};
  if (unit.empty()) return 1e3;
  for (const Unit& known : kUnits) {
    if (std::ranges::find(known.names, unit) != known.names.end()) return known.ms;
  }
  return std::nullopt;
}

std::optional<milliseconds> read_span(std::string_view text) {
  constexpr double kMaxMs = 1e15;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  Pieces pieces(text);
  double sum = 0;
  do {
    const auto number = decimal(pieces.take_all_of("0123456789."));
    pieces.take_all_of(" ");
    const auto unit = milliseconds_of_unit(pieces.take_all_of(kLetters));
    pieces.take_all_of(" ");
    if (!number || !unit) return std::nullopt;
    sum += *number * *unit;
  } while (!pieces.is_done());
  if (text.ends_with(' ') || sum > kMaxMs) return std::nullopt;
  return milliseconds(std::llround(sum));
}

// A date and a clock, not yet in any time zone.
struct Reading {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  milliseconds fraction{0};

  [[nodiscard]] bool is_in_calendar() const {
    return date().ok() && year >= 1970 && hour < 24 && minute < 60 && second < 60;
  }

  // Of a date in the calendar.
  [[nodiscard]] std::chrono::weekday weekday() const {
    return std::chrono::weekday(std::chrono::sys_days(date()));
  }

  [[nodiscard]] std::chrono::year_month_day date() const {
    return {std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
            std::chrono::day(static_cast<unsigned>(day))};
  }
};

tm local_fields(WallTime time) {
  const time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  tm fields{};
  ::localtime_r(&seconds, &fields);
  return fields;
}

Reading midnight_of(WallTime time) {
  const tm fields = local_fields(time);
  return {.year = fields.tm_year + 1900, .month = fields.tm_mon + 1, .day = fields.tm_mday};
}

tm as_fields(const Reading& reading) {
  tm fields{};
  fields.tm_year = reading.year - 1900;
  fields.tm_mon = reading.month - 1;
  fields.tm_mday = reading.day;
  fields.tm_hour = reading.hour;
  fields.tm_min = reading.minute;
  fields.tm_sec = reading.second;
  fields.tm_isdst = -1;
  return fields;
}

WallTime in_utc(const Reading& reading) {
  tm fields = as_fields(reading);
  return WallTime(std::chrono::seconds(::timegm(&fields))) + reading.fraction;
}

// mktime() moves a time that was left out by an hour, and a date out of the calendar to the next.
std::optional<WallTime> in_local_zone(const Reading& reading, bool may_move) {
  tm fields = as_fields(reading);
  const time_t seconds = ::mktime(&fields);
  const bool moved = fields.tm_hour != reading.hour || fields.tm_min != reading.minute;
  if (seconds < 0 || (moved && !may_move)) return std::nullopt;
  return WallTime(std::chrono::seconds(seconds)) + reading.fraction;
}

std::optional<WallTime> midnight(WallTime now, int days_from_today) {
  Reading day = midnight_of(now);
  day.day += days_from_today;
  return in_local_zone(day, true);
}

bool are_alike(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// A day of the week before a date, as "Sat " or "Saturday ", or none.
std::optional<std::chrono::weekday> take_weekday(std::string_view& text) {
  constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                     "Thursday", "Friday", "Saturday"};
  constexpr std::size_t kShort = 3;
  const std::string_view word = text.substr(0, text.find(' '));
  for (unsigned day = 0; day < kDays.size(); ++day) {
    const std::string_view name = kDays.at(day);
    if (!are_alike(word, name) && !are_alike(word, name.substr(0, kShort))) continue;
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    return std::chrono::weekday(day);
  }
  return std::nullopt;
}

bool starts_with_date(std::string_view text) { return text.size() > 4 && text[4] == '-'; }

void read_date(Pieces& pieces, Reading& out) {
  out.year = pieces.number(4);
  pieces.expect('-');
  out.month = pieces.number(2);
  pieces.expect('-');
  out.day = pieces.number(2);
}

void read_clock(Pieces& pieces, Reading& out) {
  out.hour = pieces.number(2);
  pieces.expect(':');
  out.minute = pieces.number(2);
  if (!pieces.take(":")) return;
  out.second = pieces.number(2);
  if (!pieces.take(".")) return;
  const std::string digits(pieces.take_all_of(kDigits));
  if (digits.empty()) pieces.expect('0');
  out.fraction = milliseconds(static_cast<int>(decimal("0." + digits).value_or(0) * 1000));
}

// East of Greenwich is positive; nothing where the text names no zone.
std::optional<std::chrono::minutes> read_zone(Pieces& pieces) {
  if (pieces.take("Z") || pieces.take(" UTC")) return std::chrono::minutes(0);
  const int sign = pieces.take("+") ? 1 : (pieces.take("-") ? -1 : 0);
  if (sign == 0) return std::nullopt;
  const int hours = pieces.number(2);
  pieces.expect(':');
  const int minutes = pieces.number(2);
  if (hours > 23 || minutes > 59) pieces.expect(':');  // no such zone
  return sign * std::chrono::minutes(60 * hours + minutes);
}

std::optional<WallTime> read_date_and_clock(std::string_view text, WallTime now) {
  const std::optional<std::chrono::weekday> weekday = take_weekday(text);
  Pieces pieces(text);
  Reading reading = midnight_of(now);
  std::optional<std::chrono::minutes> zone;
  const bool has_date = starts_with_date(text);
  if (has_date) read_date(pieces, reading);
  const bool has_clock = !has_date || pieces.take(" ") || pieces.take("T");
  if (has_clock) {
    read_clock(pieces, reading);
    zone = read_zone(pieces);
  }
  if (!pieces.is_done() || !reading.is_in_calendar()) return std::nullopt;
  if (weekday && (!has_date || *weekday != reading.weekday())) return std::nullopt;
  // A day that begins with a change of clocks begins at 01:00.
  return zone ? in_utc(reading) - *zone : in_local_zone(reading, !has_clock);
}

std::optional<WallTime> read_relative(std::string_view text, WallTime now) {
  const bool is_future = text.starts_with('+');
  if (is_future || text.starts_with('-')) {
    const auto span = read_span(text.substr(1));
    if (!span) return std::nullopt;
    return is_future ? now + *span : now - *span;
  }
  constexpr std::string_view kAgo = " ago";
  const auto span = read_span(text.substr(0, text.size() - kAgo.size()));
  if (!span) return std::nullopt;
  return now - *span;
}

std::optional<WallTime> read_epoch(std::string_view digits) {
  const auto seconds = decimal(digits);
  if (!seconds || *seconds < 0 || *seconds > 1e12) return std::nullopt;
  return WallTime(milliseconds(std::llround(*seconds * 1000)));
}

std::optional<WallTime> read_point(std::string_view text, WallTime now) {
  if (text == "now") return now;
  if (text == "today") return midnight(now, 0);
  if (text == "yesterday") return midnight(now, -1);
  if (text == "tomorrow") return midnight(now, 1);
  if (text.starts_with('@')) return read_epoch(text.substr(1));
  const bool is_relative = text.starts_with('-') || text.starts_with('+') || text.ends_with(" ago");
  return is_relative ? read_relative(text, now) : read_date_and_clock(text, now);
}

}  // namespace

Result<WallTime> parse_time_text(std::string_view text, WallTime now) {
  const auto time = read_point(text, now);
  if (!time || *time < WallTime{} || *time >= kEnd) return no_time(text);
  return *time;
}

Result<milliseconds> parse_time_span(std::string_view text) {
  const auto span = read_span(text);
  if (!span || span->count() < 1) return no_span(text);
  return *span;
}

std::string local_time_text(WallTime time) {
  const tm fields = local_fields(time);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &fields);
  return {text.data(), length};
}

}  // namespace profd
