#include "ctl/options/arguments.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/options/values.h"
#include "formats/base/time_text.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

// Reads each word by `parse` into `out`; the first that can't be read is the error.
template <class T, class Parse>
Result<void> read_each(const std::vector<std::string>& words, Parse parse, std::vector<T>& out) {
  for (const std::string& word : words) {
    const Result<T> value = parse(word);
    if (!value) return value.error();
    out.push_back(*value);
  }
  return {};
}

Result<void> read_target(const OptionWords& words, TargetRequest& out) {
  out.all = words.all;
  out.comms = words.comms;
  out.containers = words.containers;
  std::ranges::transform(words.units, std::back_inserter(out.units), full_unit_name);
  std::ranges::transform(words.cgroups, std::back_inserter(out.cgroups), parse_cgroup);
  if (auto read = read_each(words.pids, parse_pid, out.pids); !read) return read;
  return read_each(words.users, parse_user, out.uids);
}

Result<void> read_sampling(const CLI::App& verb, const OptionWords& words, StartRequest& out) {
  if (verb.count("--event") != 0) out.event = words.event;
  out.functions = words.functions;
  if (verb.count("--freq") != 0) {
    const auto frequency_hz = parse_frequency(words.frequency);
    if (!frequency_hz) return frequency_hz.error();
    out.frequency_hz = *frequency_hz;
  }
  if (verb.count("--period") != 0) {
    const auto period = parse_period(words.period);
    if (!period) return period.error();
    out.period = *period;
  }
  if (verb.count("--duration") != 0) {
    const auto duration_ms = parse_duration_ms(words.duration);
    if (!duration_ms) return duration_ms.error();
    out.duration_ms = *duration_ms;
  }
  out.children = !words.no_children;
  return {};
}

Result<void> read_point(const std::string& text, WallTime now, std::uint64_t& out_ms) {
  const auto time = parse_time_text(text, now);
  if (!time) return time.error();
  out_ms = static_cast<std::uint64_t>(time->time_since_epoch().count());
  return {};
}

Result<void> read_range(const CLI::App& verb, const OptionWords& words, TimeRange& out) {
  const bool has_ends = verb.count("--since") + verb.count("--until") != 0;
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  if (verb.count("--last") != 0) {
    if (has_ends) return usage("--last excludes --since and --until", "leave out one of them");
    const auto span = parse_time_span(words.last);
    if (!span) return span.error();
    return read_point("-" + words.last, now, out.since_ms);
  }
  if (verb.count("--since") != 0) {
    if (auto read = read_point(words.since, now, out.since_ms); !read) return read;
  }
  if (verb.count("--until") != 0) {
    if (auto read = read_point(words.until, now, out.until_ms); !read) return read;
  }
  if (out.since_ms < out.until_ms) return {};
  return usage("the range ends before it begins", "give a --since that is before --until");
}

Result<void> read_history(const CLI::App& verb, const OptionWords& words, Options& out) {
  const bool is_ps = out.verb == Verb::kPs;
  if (!is_ps) {
    if (auto read = read_range(verb, words, out.range); !read) return read;
  }
  if (out.verb == Verb::kExport) {
    const bool has_range =
        verb.count("--since") + verb.count("--until") + verb.count("--last") != 0;
    if (!has_range) return usage("no time is given", "give --last 10m, or --since and --until");
    return {};
  }
  out.limit = is_ps ? std::numeric_limits<std::uint64_t>::max() : HistoryRequest().limit;
  if (verb.count("--limit") == 0) return {};
  const auto limit = parse_limit(words.limit, is_ps ? out.limit : HistoryRequest::kMaxWindows);
  if (!limit) return limit.error();
  out.limit = *limit;
  return {};
}

bool is_of_history(Verb verb) {
  return verb == Verb::kExport || verb == Verb::kHistory || verb == Verb::kPs;
}

}  // namespace

Error usage(std::string message, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

Result<void> read_words(const CLI::App& verb, const OptionWords& words, Options& out) {
  if (auto target = read_target(words, out.request.target); !target) return target;
  if (out.verb == Verb::kStart || out.verb == Verb::kRecord) {
    return read_sampling(verb, words, out.request);
  }
  return is_of_history(out.verb) ? read_history(verb, words, out) : Result<void>();
}

}  // namespace profd
