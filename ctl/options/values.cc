#include "ctl/options/values.h"

#include <pwd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "formats/base/quantity_text.h"

namespace profd {
namespace {

// The longer first. The other is where v1 hierarchies are mounted beside v2.
constexpr std::array<std::string_view, 2> kCgroupMounts = {"/sys/fs/cgroup/unified",
                                                           "/sys/fs/cgroup"};
constexpr std::chrono::hours kMaxDuration{24 * 366};

// The whole text as one number.
template <class T>
bool read_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

Error invalid(const std::string& what, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, what, std::move(hint));
}

std::string max_sample_rate() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::string rate;
  std::getline(file, rate);
  return rate.empty() ? "the host's limit" : rate;
}

}  // namespace

Result<std::uint32_t> parse_pid(const std::string& text) {
  std::uint32_t pid = 0;
  constexpr std::uint32_t kMax = std::numeric_limits<std::int32_t>::max();
  if (read_number(text, pid) && pid != 0 && pid <= kMax) return pid;
  return invalid("\"" + text + "\" is no pid", "give numbers: --pid 1234 or --pid 1234,5678");
}

Result<std::uint32_t> parse_user(const std::string& text) {
  std::uint32_t uid = 0;
  if (read_number(text, uid)) return uid;
  const passwd* const user = ::getpwnam(text.c_str());
  if (user != nullptr) return user->pw_uid;
  return invalid("there is no user \"" + text + "\"", "'getent passwd' shows the users");
}

Result<std::uint64_t> parse_frequency(const std::string& text) {
  std::uint64_t frequency_hz = 0;
  if (read_number(text, frequency_hz) && frequency_hz != 0) return frequency_hz;
  return invalid("\"" + text + "\" is no frequency",
                 "give 1 to " + max_sample_rate() + " samples a second, for example 99");
}

Result<std::uint64_t> parse_period(const std::string& text) {
  std::uint64_t period = 0;
  if (read_number(text, period) && period != 0) return period;
  return invalid("\"" + text + "\" is no period", "give a number of events, for example 1000");
}

Result<std::uint64_t> parse_limit(const std::string& text, std::uint64_t max) {
  std::uint64_t limit = 0;
  if (read_number(text, limit) && limit != 0 && limit <= max) return limit;
  return invalid(
      "\"" + text + "\" is no number of things to show",
      "give 1 or more" + (max < 1'000'000 ? ", at most " + std::to_string(max) : std::string()));
}

Result<std::uint64_t> parse_duration_ms(const std::string& text) {
  const bool is_plain = text.find_first_not_of("0123456789.") == std::string::npos;
  const auto duration = parse_duration(is_plain ? text + "s" : text);
  if (duration && duration->count() >= 1 && *duration <= kMaxDuration) {
    return static_cast<std::uint64_t>(duration->count());
  }
  return invalid("\"" + text + "\" is no duration",
                 "give at least 1ms and at most 366 days, for example 500ms, 10s, 5m or 1h");
}

std::string parse_cgroup(const std::string& text) {
  for (const std::string_view mount : kCgroupMounts) {
    if (!text.starts_with(mount)) continue;
    std::string below = text.substr(mount.size());
    if (below.empty()) return "/";
    if (below.starts_with('/')) return below;
  }
  return text;
}

}  // namespace profd
