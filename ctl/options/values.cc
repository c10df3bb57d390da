#include "ctl/options/values.h"

#include <pwd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <string_view>

#include "ctl/options/command_line.h"
#include "ctl/options/shown_argument.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

// The longer one first. Hosts that mount v1 hierarchies beside v2 use it.
constexpr std::array<std::string_view, 2> kCgroupMounts = {"/sys/fs/cgroup/unified",
                                                           "/sys/fs/cgroup"};
constexpr std::chrono::hours kMaxDuration{24 * 366};

// The whole text as one number.
template <class T>
bool read_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string max_sample_rate() {
  std::ifstream file("/proc/sys/kernel/perf_event_max_sample_rate");
  std::string rate;
  std::getline(file, rate);
  return rate.empty() ? "the limit of the host" : rate;
}

// "--freq 0", "--freq 'often'"
std::string given(const std::string& option, const std::string& text) {
  std::uint64_t number = 0;
  return option + " " + (read_number(text, number) ? shortened(text) : shown_argument(text));
}

Result<std::uint64_t> parse_positive(const std::string& text, const std::string& option,
                                     const std::string& range, const std::string& hint) {
  std::uint64_t number = 0;
  if (read_number(text, number) && number != 0) return number;
  return invalid_argument("invalid " + given(option, text) + " (" + range + ")", hint);
}

Error invalid_pid(const std::string& text) {
  const bool is_name = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  return invalid_argument("invalid pid " + shown_argument(text) +
                              (is_name ? "; to match by name use --comm " + shortened(text) : ""),
                          "a pid is a number: --pid 1234 or --pid 1234,5678");
}

}  // namespace

Result<std::vector<std::string>> split_list(const std::string& text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escaped = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',';
    if (is_escaped) ++i;
    if (text[i] == ',' && !is_escaped) {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  const bool has_empty = parts.size() > 1 && std::ranges::find(parts, "") != parts.end();
  if (!has_empty) return parts;
  return invalid_argument("empty name in the list " + shown_argument(text),
                          "give NAME,NAME; a comma of a name is written as \\,");
}

Result<std::vector<std::uint32_t>> parse_pids(const std::string& text) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::int32_t>::max();
  std::vector<std::uint32_t> pids;
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    std::uint32_t pid = 0;
    if (!read_number(part, pid) || pid == 0 || pid > kMax) return invalid_pid(std::string(part));
    pids.push_back(pid);
    if (part.size() == rest.size()) return pids;
    rest.remove_prefix(part.size() + 1);
  }
}

Result<std::uint32_t> parse_user(const std::string& text) {
  std::uint32_t uid = 0;
  if (read_number(text, uid)) return uid;
  if (const passwd* const user = ::getpwnam(text.c_str())) return user->pw_uid;
  return invalid_argument("this host has no user " + shown_argument(text),
                          "'getent passwd' lists the users");
}

Result<std::uint64_t> parse_frequency(const std::string& text) {
  return parse_positive(text, "--freq", "1 to " + max_sample_rate(),
                        "give samples per second, for example 99");
}

Result<std::uint64_t> parse_period(const std::string& text) {
  return parse_positive(text, "--period", "1 or more",
                        "give events per sample, for example 1000; for cpu, nanoseconds");
}

Result<std::uint64_t> parse_limit(const std::string& text) {
  return parse_positive(text, "--limit", "1 or more", "give how many to show, for example 10");
}

Result<std::uint64_t> parse_duration_ms(const std::string& text) {
  const auto duration = parse_time_span(text);
  if (duration && *duration <= kMaxDuration) return static_cast<std::uint64_t>(duration->count());
  return invalid_argument("invalid " + given("--duration", text) + " (1ms to 366d)",
                          "give a number with a unit, for example 500ms, 10s, 5m or 1h30m");
}

Result<std::string> parse_cgroup(const std::string& text) {
  if (text.empty()) return invalid_argument("a cgroup path is empty");
  for (const std::string_view mount : kCgroupMounts) {
    if (!text.starts_with(mount)) continue;
    std::string below = text.substr(mount.size());
    if (below.empty()) return std::string("/");
    if (below.starts_with('/')) return below;
  }
  return text;
}

}  // namespace profd
