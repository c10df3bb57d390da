#include "daemon/history/files.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "formats/base/errors.h"
#include "formats/base/json_members.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;

constexpr std::string_view kNamePattern = "00000000T000000Z";

std::int64_t nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

std::chrono::system_clock::time_point time_of_ns(std::uint64_t nanoseconds_since_epoch) {
  return std::chrono::system_clock::time_point(
      std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds_since_epoch)));
}

json::object profile_json(const WindowProfile& profile) {
  json::object object{{"labels", json_of(profile.labels)}, {"cgroup", profile.cgroup}};
  if (profile.user) object.emplace("user", *profile.user);
  if (profile.owner) {
    object.emplace("uid", profile.owner->uid);
    object.emplace("gid", profile.owner->gid);
  }
  return object;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int number_at(std::string_view name, std::size_t place, std::size_t digits) {
  int number = 0;
  for (const char digit : name.substr(place, digits)) number = number * 10 + (digit - '0');
  return number;
}

// A time of kNamePattern that is there, and that no sum with a span of time overflows.
bool is_time_of_window(std::string_view name) {
  constexpr int kFirstYear = 1970;
  constexpr int kLastYear = 2199;
  const int year = number_at(name, 0, 4);
  const std::chrono::year_month_day day{
      std::chrono::year(year), std::chrono::month(static_cast<unsigned>(number_at(name, 4, 2))),
      std::chrono::day(static_cast<unsigned>(number_at(name, 6, 2)))};
  return year >= kFirstYear && year <= kLastYear && day.ok() && number_at(name, 9, 2) < 24 &&
         number_at(name, 11, 2) < 60 && number_at(name, 13, 2) < 60;
}

}  // namespace

Result<void> read_json(const json::value& value, WindowProfile& out) {
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  auto read = JsonReader(value)
                  .required("cgroup", out.cgroup)
                  .optional("user", out.user)
                  .optional("uid", uid)
                  .optional("gid", gid)
                  .optional("labels", out.labels)
                  .finish();
  if (uid && gid) out.owner = ProcessOwner{.uid = *uid, .gid = *gid};
  return read;
}

Result<void> read_json(const json::value& value, WindowRecord& out) {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t start_monotonic = 0;
  std::uint64_t end_monotonic = 0;
  auto read = JsonReader(value)
                  .required("start_ns", start)
                  .required("end_ns", end)
                  .required("start_monotonic_ns", start_monotonic)
                  .required("end_monotonic_ns", end_monotonic)
                  .required("profiles", out.profiles)
                  .optional("named_files", out.named_files)
                  .finish();
  if (!read) return read;
  constexpr auto kMaxTime = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (std::max({start, end, start_monotonic, end_monotonic}) > kMaxTime) {
    return malformed("a time of the window is out of range");
  }
  out.start = time_of_ns(start);
  out.end = time_of_ns(end);
  out.start_monotonic = std::chrono::nanoseconds(static_cast<std::int64_t>(start_monotonic));
  out.end_monotonic = std::chrono::nanoseconds(static_cast<std::int64_t>(end_monotonic));
  return {};
}

std::string to_json(const WindowRecord& record) {
  json::array profiles;
  for (const WindowProfile& profile : record.profiles) profiles.push_back(profile_json(profile));
  json::object object{{"start_ns", nanoseconds(record.start)},
                      {"end_ns", nanoseconds(record.end)},
                      {"start_monotonic_ns", record.start_monotonic.count()},
                      {"end_monotonic_ns", record.end_monotonic.count()},
                      {"profiles", std::move(profiles)}};
  if (!record.named_files.empty()) {
    object.emplace("named_files",
                   json::array(record.named_files.begin(), record.named_files.end()));
  }
  return json_text(object);
}

Result<WindowRecord> parse_window_record(std::string_view text) {
  return parse_as<WindowRecord>(text, kMaxDepth);
}

std::chrono::system_clock::time_point hour_of(std::chrono::system_clock::time_point start) {
  return std::chrono::floor<std::chrono::hours>(start);
}

std::string window_name(std::chrono::system_clock::time_point start) {
  std::string name = utc_text(start);
  std::erase_if(name, [](char c) { return c == '-' || c == ':'; });
  return name;
}

// The pattern as a time, optionally followed by "-" and a number.
bool is_window_name(std::string_view name) {
  if (name.size() < kNamePattern.size()) return false;
  const auto fits = [](char c, char pattern) {
    return pattern == '0' ? is_digit(c) : c == pattern;
  };
  if (!std::ranges::equal(name.substr(0, kNamePattern.size()), kNamePattern, fits)) return false;
  if (!is_time_of_window(name)) return false;
  name.remove_prefix(kNamePattern.size());
  if (name.empty()) return true;
  if (!name.starts_with('-')) return false;
  name.remove_prefix(1);
  return !name.empty() && name.size() <= 3 && std::ranges::all_of(name, is_digit);
}

}  // namespace profd
