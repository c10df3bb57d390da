// What a daemon and its children take over time: memory, descriptors and threads, and the level of
// each in a part of that time.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace profd::e2e {

// Of one process; of a kind of processes, the largest of each.
struct Usage {
  std::uint64_t private_kib = 0;   // what the kernel can't drop: RssAnon and RssShmem
  std::uint64_t resident_kib = 0;  // VmRSS, which has the pages of programs, too
  std::uint64_t descriptors = 0;   // without `others_files`, and without one for each child
  std::uint64_t others_files = 0;  // descriptors of files that processes of the host have mapped
  std::uint64_t threads = 0;
  std::uint64_t processes = 0;  // of the kind
};

class UsageLog {
 public:
  // A process is one of its kind, which its command name says. One that is there all the time has a
  // series of its own besides, so that the growth of a small one is seen beside a large one.
  struct Series {
    std::string name;  // "KIND", or "KIND PID"
    Usage before;
    Usage after;
  };

  // Continuous mode opens what any process of the host maps. So the descriptors of files outside
  // `own_directories` are counted apart: the test does not decide on how many there are.
  explicit UsageLog(std::vector<std::filesystem::path> own_directories)
      : own_directories_(std::move(own_directories)) {}

  // Reads the usage of a process and its children. Those that end meanwhile are left out.
  void read(pid_t daemon);

  [[nodiscard]] std::size_t size() const { return moments_.size(); }

  // Of one process, now. It has no threads if the process has ended.
  [[nodiscard]] Usage usage_of(pid_t pid) const;

  // Of a process and its children together, now: the resident memory, where a page that several
  // share counts once (proportional set size), and the descriptors. A child that has the address
  // space of the process, since it has not begun its own program yet, is left out.
  [[nodiscard]] Usage usage_with_children(pid_t pid) const;

  // The medians of the second and of the last quarter, of each kind and process that is there in
  // most of both.
  [[nodiscard]] std::vector<Series> levels() const;

 private:
  using Moment = std::map<std::string, Usage>;  // by the name of the series

  void count_descriptors(pid_t pid, Usage& usage) const;
  [[nodiscard]] bool is_others_file(const std::string& target) const;

  std::vector<std::filesystem::path> own_directories_;
  std::vector<Moment> moments_;
};

struct MemoryReading {
  std::chrono::steady_clock::time_point at;
  std::uint64_t resident_kib = 0;
};

struct MemoryTrend {
  double kib_a_minute = 0;
  double last_kib = 0;  // the level at the end
};

// The line of least squares through the second half of some readings, the first of which come from
// caches that fill. It goes through the medians of parts of that half: a single reading has the
// megabytes that a request or the end of a window takes for a moment, by chance. None: there are
// too few readings.
[[nodiscard]] std::optional<MemoryTrend> trend_of_second_half(
    std::span<const MemoryReading> readings);

}  // namespace profd::e2e
