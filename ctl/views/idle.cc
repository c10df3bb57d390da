#include "ctl/views/idle.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::int64_t kIdleBlockNs = 100'000'000;
constexpr std::uint32_t kNeverIdle = 0xffffffff;

constexpr std::array kIdleWaits = {Wait::kFutex, Wait::kEpoll, Wait::kPoll,
                                   Wait::kSleep, Wait::kPipe,  Wait::kChild};

// Parts of the names of functions that take a lock: of the kernel for its futexes with priority
// inheritance, of glibc, of Rust's standard library and parking_lot, of Abseil, HotSpot and
// PostgreSQL. A thread that waits in one of them has work.
constexpr auto kLockFunctions = std::to_array<std::string_view>(
    {"futex_lock_pi", "lll_lock_wait", "pthread_mutex_lock", "pthread_mutex_timedlock",
     "pthread_mutex_clocklock", "pthread_rwlock_", "lock_contended", "read_contended",
     "write_contended", "::lock_slow", "lock_exclusive_slow", "lock_shared_slow", "Mutex::LockSlow",
     "ObjectMonitor::enter", "LWLockAcquire", "ProcSleep"});
constexpr std::size_t kLockNameBytes = 256;  // of a name that is searched: files may have any

bool takes_lock(std::string_view function) {
  function = function.substr(0, kLockNameBytes);
  return std::ranges::any_of(kLockFunctions, [function](std::string_view part) {
    return function.find(part) != std::string_view::npos;
  });
}

// Finds the stacks in which a lock is taken.
class LockStacks {
 public:
  // `samples` must outlive *this, and get no more functions.
  explicit LockStacks(const Samples& samples) : samples_(samples) {
    takes_lock_.reserve(samples.functions().size());
    for (const SampledFunction& function : samples.functions()) {
      takes_lock_.push_back(takes_lock(samples.text(function.name)));
    }
  }

  [[nodiscard]] bool has(const Samples::Row& row) {
    samples_.read_stack(row, frames_);
    return std::ranges::any_of(frames_, [this](std::uint32_t frame) -> bool {
      return takes_lock_[samples_.frames()[frame].function];
    });
  }

 private:
  const Samples& samples_;
  std::vector<bool> takes_lock_;       // by function
  std::vector<std::uint32_t> frames_;  // of one stack
};

bool may_be_idle(std::string_view state, std::string_view wait) {
  constexpr std::size_t kInterruptible = 1;  // profd_block_state
  return state == kBlockStates[kInterruptible] && std::ranges::any_of(kIdleWaits, [wait](Wait one) {
           return wait == kWaitKinds[static_cast<std::size_t>(one)];
         });
}

// By label set: the same one for those that differ only in `ongoing`, or kNeverIdle.
std::vector<std::uint32_t> idle_groups(Samples& samples) {
  const std::vector<SampleLabels> all(samples.labels().begin(), samples.labels().end());
  std::vector<std::uint32_t> groups;
  groups.reserve(all.size());
  for (SampleLabels set : all) {
    const bool may_be = may_be_idle(samples.text(set.state), samples.text(set.wait));
    set.ongoing = 0;
    groups.push_back(may_be ? samples.add_labels(set) : kNeverIdle);
  }
  return groups;
}

bool is_idle_sum(const SampleValue& sum, std::int64_t duration_ns) {
  const std::int64_t blocks = std::max<std::int64_t>(sum.samples, 1);
  return sum.cpu_ns / blocks >= kIdleBlockNs && sum.cpu_ns >= duration_ns / 2;
}

}  // namespace

void fold_idle(Samples& samples) {
  if (!is_of_blocks(samples.time_kind) || samples.duration_ns <= 0) return;
  const std::vector<std::uint32_t> groups = idle_groups(samples);
  LockStacks locks(samples);
  std::map<std::pair<std::uint32_t, std::string_view>, SampleValue> sums;
  for (const Samples::Row& row : samples.rows()) {
    const std::uint32_t group = groups[row.labels];
    if (group == kNeverIdle || locks.has(row)) continue;
    sums[{group, row.encoded()}].add(row.value);
  }
  std::vector<bool> is_kept;
  is_kept.reserve(samples.rows().size());
  SampleValue idle;
  for (const Samples::Row& row : samples.rows()) {
    const auto sum = sums.find({groups[row.labels], row.encoded()});
    const bool is_idle = sum != sums.end() && is_idle_sum(sum->second, samples.duration_ns);
    is_kept.push_back(!is_idle);
    if (is_idle) idle.add(row.value);
  }
  if (std::ranges::find(is_kept, true) == is_kept.end()) return;
  samples.idle.add(idle);
  samples.keep_rows(is_kept);
}

}  // namespace profd
