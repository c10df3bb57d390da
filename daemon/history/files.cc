#include "daemon/history/files.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "formats/api/history_api.h"
#include "formats/base/errors.h"
#include "formats/base/json_members.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;

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

bool is_window_name(std::string_view name) { return start_of_window(name).has_value(); }

}  // namespace profd
