#include "ctl/ship/window_name.h"

#include <charconv>

namespace profd {
namespace {

// A time of nanoseconds ends in 2262.
constexpr unsigned kFirstYear = 1970;
constexpr unsigned kLastYear = 2200;

// Reads digits, at most as many as are there.
bool read_digits(std::string_view text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<ShipTime> start_of_window(std::string_view name) {
  constexpr std::size_t kLength = 16;  // 20260102T140500Z
  if (name.size() < kLength || name[8] != 'T' || name[15] != 'Z') return std::nullopt;
  if (name.size() > kLength && name[kLength] != '-') return std::nullopt;
  unsigned year = 0;
  unsigned month = 0;
  unsigned day = 0;
  unsigned hour = 0;
  unsigned minute = 0;
  unsigned second = 0;
  if (!read_digits(name.substr(0, 4), year) || !read_digits(name.substr(4, 2), month) ||
      !read_digits(name.substr(6, 2), day) || !read_digits(name.substr(9, 2), hour) ||
      !read_digits(name.substr(11, 2), minute) || !read_digits(name.substr(13, 2), second)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || year < kFirstYear || year > kLastYear) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

}  // namespace profd
