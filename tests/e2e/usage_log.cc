#include "tests/e2e/usage_log.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <ratio>
#include <span>
#include <string_view>
#include <system_error>

#include "tests/children.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;

using Field = std::uint64_t Usage::*;
constexpr std::array<Field, 6> kFields{&Usage::private_kib, &Usage::resident_kib,
                                       &Usage::descriptors, &Usage::others_files,
                                       &Usage::threads,     &Usage::processes};

// Whether they have one address space, as a child has that of its parent until its exec.
bool share_memory(pid_t one, pid_t other) {
  return ::syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}

fs::path directory_of(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

std::uint64_t median(std::vector<std::uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

constexpr std::size_t kTrendParts = 15;

// Minutes since a time, and KiB.
struct TrendPoint {
  double minute = 0;
  double kib = 0;
};

TrendPoint point_of(std::span<const MemoryReading> part,
                    std::chrono::steady_clock::time_point begin) {
  std::vector<std::uint64_t> values;
  values.reserve(part.size());
  for (const MemoryReading& reading : part) values.push_back(reading.resident_kib);
  const std::chrono::duration<double, std::ratio<60>> passed = part[part.size() / 2].at - begin;
  return {.minute = passed.count(), .kib = static_cast<double>(median(std::move(values)))};
}

// Of the moments that have the series; none if most of them do not.
template <class Moment>
std::optional<Usage> level(std::span<const Moment> moments, const std::string& name) {
  std::vector<Usage> seen;
  for (const Moment& moment : moments) {
    const auto usage = moment.find(name);
    if (usage != moment.end()) seen.push_back(usage->second);
  }
  if (seen.size() * 2 <= moments.size()) return std::nullopt;
  Usage result;
  for (const Field field : kFields) {
    std::vector<std::uint64_t> values;
    for (const Usage& usage : seen) values.push_back(usage.*field);
    result.*field = median(std::move(values));
  }
  return result;
}

}  // namespace

void UsageLog::read(pid_t daemon) {
  std::vector<pid_t> processes = test::children_of(daemon);
  processes.push_back(daemon);
  Moment moment;
  for (const pid_t pid : processes) {
    const std::string kind = first_line(slurp(directory_of(pid) / "comm"));
    const Usage usage = usage_of(pid);
    if (kind.empty() || usage.threads == 0) continue;
    moment[kind + " " + std::to_string(pid)] = usage;
    Usage& of_kind = moment[kind];
    const std::uint64_t count = of_kind.processes + 1;
    for (const Field field : kFields) of_kind.*field = std::max(of_kind.*field, usage.*field);
    of_kind.processes = count;
  }
  moments_.push_back(std::move(moment));
}

std::vector<UsageLog::Series> UsageLog::levels() const {
  const std::span<const Moment> all(moments_);
  const std::size_t quarter = all.size() / 4;
  if (quarter == 0) return {};
  const auto second = all.subspan(quarter, quarter);
  const auto last = all.last(quarter);
  std::vector<Series> result;
  for (const auto& [name, usage] : last.back()) {
    const auto before = level(second, name);
    const auto after = level(last, name);
    if (before && after) result.push_back({.name = name, .before = *before, .after = *after});
  }
  return result;
}

Usage UsageLog::usage_of(pid_t pid) const {
  Usage usage;
  usage.processes = 1;
  std::ifstream status(directory_of(pid) / "status");
  for (std::string line; std::getline(status, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string key = line.substr(0, colon);
    const auto number = [&] { return std::strtoull(line.c_str() + colon + 1, nullptr, 10); };
    if (key == "VmRSS") usage.resident_kib = number();
    if (key == "RssAnon" || key == "RssShmem") usage.private_kib += number();
    if (key == "Threads") usage.threads = number();
  }
  count_descriptors(pid, usage);
  return usage;
}

void UsageLog::count_descriptors(pid_t pid, Usage& usage) const {
  const std::size_t sockets = test::children_of(pid).size();
  std::error_code error;
  fs::directory_iterator entry(directory_of(pid) / "fd", error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code closed;
    const std::string target = fs::read_symlink(entry->path(), closed);
    if (closed) continue;
    ++(is_others_file(target) ? usage.others_files : usage.descriptors);
  }
  usage.descriptors -= std::min<std::uint64_t>(usage.descriptors, sockets);
}

bool UsageLog::is_others_file(const std::string& target) const {
  if (!target.starts_with('/')) return false;  // a socket, a pipe or an anonymous inode
  // A reader of names makes a copy of the vDSO at the first sample in it, which may be late.
  if (target.starts_with("/memfd:vdso ")) return true;
  for (const std::string_view kernels : {"/proc/", "/sys/", "/dev/", "/memfd:"}) {
    if (target.starts_with(kernels)) return false;
  }
  return std::ranges::none_of(own_directories_, [&target](const fs::path& own) {
    return target.starts_with(own.string() + "/");
  });
}

Usage UsageLog::usage_with_children(pid_t pid) const {
  std::vector<pid_t> processes = test::children_of(pid);
  processes.push_back(pid);
  Usage sum;
  for (const pid_t process : processes) {
    if (process != pid && share_memory(process, pid)) continue;
    std::ifstream memory(directory_of(process) / "smaps_rollup");
    for (std::string line; std::getline(memory, line);) {
      constexpr std::string_view kKey = "Pss:";
      if (line.starts_with(kKey)) sum.resident_kib += std::stoull(line.substr(kKey.size()));
    }
    count_descriptors(process, sum);
    ++sum.processes;
  }
  return sum;
}

std::optional<MemoryTrend> trend_of_second_half(std::span<const MemoryReading> readings) {
  const auto half = readings.last(readings.size() / 2);
  const std::size_t length = half.size() / kTrendParts;
  if (length == 0) return std::nullopt;
  std::array<TrendPoint, kTrendParts> points;
  TrendPoint mean;
  for (std::size_t i = 0; i < kTrendParts; ++i) {
    points[i] = point_of(half.subspan(i * length, length), half.front().at);
    mean.minute += points[i].minute / kTrendParts;
    mean.kib += points[i].kib / kTrendParts;
  }
  double products = 0;
  double squares = 0;
  for (const TrendPoint& point : points) {
    products += (point.minute - mean.minute) * (point.kib - mean.kib);
    squares += (point.minute - mean.minute) * (point.minute - mean.minute);
  }
  if (squares == 0) return std::nullopt;
  const double slope = products / squares;
  const double last_kib = mean.kib + slope * (points.back().minute - mean.minute);
  return MemoryTrend{.kib_a_minute = slope, .last_kib = last_kib};
}

}  // namespace profd::e2e
