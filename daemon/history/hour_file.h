// Makes the file of an hour out of the files of its windows (window_file.h).
//
// It has no addresses, which no later window needs, and the pid only of processes with many
// samples: the others are added up by their other labels and their owner. What is added up has one
// owner or none, so that nobody sees another's samples.
//
// All its windows have one period, so that a number of samples is a CPU time: windows of another
// frequency are in another file of the hour. Samples of windows of blocks are microseconds.
//
// Step by step on the window worker, so that a window never waits for more than one step. The last
// step takes longer than the others: it is not divided.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "daemon/history/files.h"
#include "daemon/history/store.h"
#include "daemon/history/user_shares.h"
#include "daemon/history/window_file.h"
#include "daemon/history/window_sums.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_merge.h"

namespace profd {

// A process with fewer samples in an hour has no pid, and one that was off the CPU for less time.
inline constexpr std::uint64_t kMinSamplesOfPid = 10;
inline constexpr std::uint64_t kMinBlockedUsOfPid = 1'000'000;

// The samples and processes of more windows than fit into this memory belong to another file of the
// same hour.
inline constexpr std::uint64_t kMaxHourMemory = std::uint64_t{64} << 20;

struct HourPlan {
  std::string windows_dir;
  std::string hours_dir;
  std::string name;
  std::chrono::system_clock::time_point start;  // of the hour
  std::vector<std::string> windows{};           // oldest first, at most kMaxWindowsOfHour
  UserLimits limits{};
  std::uint64_t max_bytes = kMaxWindowFileBytes;  // of the file: hour_size.h
  std::uint64_t max_unpacked_bytes = kMaxUnpackedWindowBytes;
  UidOwners owners{};
};

class HourMaker {
 public:
  explicit HourMaker(HourPlan plan, std::uint64_t max_memory = kMaxHourMemory)
      : plan_(std::move(plan)), max_memory_(max_memory) {}

  // Continues for about `turn`. True: the file is there, and can be read. A window that can't be
  // read, or is of another event than the first, is left out, and its samples, as far as they are
  // known, are lost as "unreadable". kNotFound: no window is left. kTooLarge, kMalformed: the file
  // could not be read, so it is not written.
  [[nodiscard]] Result<bool> advance(std::chrono::steady_clock::duration turn);

  // To be called after advance() returned true.
  [[nodiscard]] HourInfo take() { return std::move(made_); }

 private:
  struct Process {
    std::uint64_t samples = 0;
    std::optional<ProcessOwner> owner{};
  };

  Result<bool> step();
  bool count(const std::string& window);
  void find_mixed();
  void add(const std::string& window);
  Result<void> merge(const WindowFile& file);
  void note(const WindowFile& file, bool is_added);
  void add_processes(const WindowFile& file);
  Result<void> finish();
  [[nodiscard]] std::string encode(PprofProfile& profile, const std::vector<UserBytes>& users);
  [[nodiscard]] std::uint64_t memory_bytes() const;
  [[nodiscard]] ProcessLabels labels_in_hour(ProcessLabels labels) const;

  HourPlan plan_;
  std::uint64_t max_memory_;
  std::size_t counted_ = 0;
  std::size_t next_ = 0;  // the window to merge
  std::map<ProcessLabels, Process> processes_;
  std::uint64_t processes_bytes_ = 0;  // the memory for them
  std::uint64_t period_us_ = 0;        // of the windows; 0: none is read yet
  std::uint64_t min_samples_of_pid_ = kMinSamplesOfPid;
  std::set<ProcessLabels> mixed_;  // without pid: they would have several owners
  PprofMerge profiles_{{.drop_addresses = true}};
  WindowSums sums_;
  SessionSummary summary_;
  WindowRecord record_;
  std::size_t merged_ = 0;
  HourInfo made_;
};

}  // namespace profd
