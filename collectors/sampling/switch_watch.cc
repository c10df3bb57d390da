#include "collectors/sampling/switch_watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "collectors/bpf/cpu_sums.h"
#include "collectors/bpf/kernel_calls.h"
#include "collectors/sampling/slot_masks.h"

namespace profd {
namespace {

// Threads that a thread starts before it is watched are found by another run: nearly always two
// are enough.
constexpr unsigned kMaxWatchRuns = 8;

std::uint64_t monotonic_ns(SwitchWatch::Clock::time_point time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

unsigned number_of_cpus() {
  return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

constexpr profd_block_rate kRateOfSessions{.long_ns = PROFD_BLOCK_LONG_NS,
                                           .scale = 0,
                                           .walks_per_second = PROFD_WALKS_PER_SECOND,
                                           .burst = PROFD_WALK_BURST,
                                           .new_sites_per_second = PROFD_NEW_SITES_PER_SECOND};
constexpr profd_block_rate kRateOfWindows{
    .long_ns = PROFD_WINDOW_BLOCK_LONG_NS,
    .scale = 0,
    .walks_per_second = PROFD_WINDOW_WALKS_PER_SECOND,
    .burst = PROFD_WINDOW_WALK_BURST,
    .new_sites_per_second = PROFD_WINDOW_NEW_SITES_PER_SECOND};

template <class T>
void store_member(T& to, T value) {
  std::atomic_ref(to).store(value, std::memory_order_relaxed);
}

// The programs read the members while they run; none depends on another.
void set_rate_members(profd_block_rate& to, const profd_block_rate& rate) {
  store_member(to.long_ns, rate.long_ns);
  store_member(to.scale, WalkRate::scale_of_certain(rate.long_ns));
  store_member(to.walks_per_second, rate.walks_per_second);
  store_member(to.burst, rate.burst);
  store_member(to.new_sites_per_second, rate.new_sites_per_second);
}

}  // namespace

// The hook at forks comes first: what it does not see, a run of the iterator does.
Result<SwitchWatch::Loaded> SwitchWatch::load_and_attach(const Programs& programs) {
  auto loaded = SwitchPrograms::load(programs);
  if (!loaded) return loaded.error();
  set_rate_members(loaded->rate(), kRateOfSessions);
  if (auto learned = loaded->learn_identity(); !learned) return learned.error();
  std::vector<UniqueFd> links;
  for (const char* const name : {"profd_switch_fork", "profd_switch"}) {
    auto link = loaded->attach_tracepoint(name);
    if (!link) return link.error();
    links.push_back(std::move(*link));
  }
  return Loaded(std::make_shared<Attached>(
      Attached{.programs = std::move(*loaded), .links = std::move(links)}));
}

void SwitchWatch::continue_window(SessionSlot slot) {
  needed_ |= bit(slot);
  windows_ |= bit(slot);
}

void SwitchWatch::need(SessionSlot slot, bool is_window) {
  needed_ |= bit(slot);
  windows_ = is_window ? windows_ | bit(slot) : windows_ & ~bit(slot);
  was_needed_ = true;
  starts_.insert_or_assign(slot, Start{});
  if (!loaded_) (void)take_loaded();
  set_rate();
}

// Which blocks are long is decided at their end. So the rate of sessions is set before the first
// one begins, and stays until the last one has ended.
void SwitchWatch::set_rate() {
  if (!loaded_ || needed_ == 0) return;
  const bool is_of_windows = (needed_ & ~windows_) == 0;
  if (walk_rate_ && is_of_windows == is_rate_of_windows_) return;
  is_rate_of_windows_ = is_of_windows;
  const profd_block_rate& rate = is_of_windows ? kRateOfWindows : kRateOfSessions;
  set_rate_members(loaded_->programs.rate(), rate);
  walk_rate_.emplace(rate.long_ns, rate.walks_per_second, number_of_cpus());
}

Result<bool> SwitchWatch::take_loaded() {
  if (!loading_.valid()) {
    if (failure_ && Clock::now() < failed_at_ + kRetry) return *failure_;
    loading_ = programs_->kernel_calls().run(
        [programs = programs_] { return load_and_attach(*programs); });
    return false;
  }
  if (!KernelCalls::has_returned(loading_)) return false;
  auto loaded = loading_.get();
  if (!loaded) {
    failure_ = loaded.error();
    failed_at_ = Clock::now();
    return *failure_;
  }
  failure_.reset();
  loaded_ = std::move(*loaded);
  set_rate();
  return true;
}

Result<bool> SwitchWatch::has_begun(SessionSlot slot) {
  const auto start = starts_.find(slot);
  if (start == starts_.end()) return true;
  if (!loaded_) {
    auto is_loaded = take_loaded();
    if (!is_loaded || !*is_loaded) return is_loaded;
  }
  auto begun = watch(start->second);
  if (begun && !*begun) return false;
  starts_.erase(start);
  return begun;
}

Result<bool> SwitchWatch::watch(Start& start) {
  if (start.watching.valid()) {
    if (!KernelCalls::has_returned(start.watching)) return false;
    const auto added = start.watching.get();
    if (!added) return added.error();
    if (*added == 0 || ++start.runs == kMaxWatchRuns) return true;
  }
  start.watching = programs_->kernel_calls().run(
      [loaded = loaded_] { return loaded->programs.watch_threads(); });
  return false;
}

SwitchWatch::OpenList SwitchWatch::list_open_blocks() {
  if (!loaded_) return {};
  return programs_->kernel_calls().run(
      [loaded = loaded_] { return loaded->programs.list_open_blocks(); });
}

void SwitchWatch::release(SessionSlot slot, Clock::time_point now) {
  starts_.erase(slot);
  if ((needed_ & bit(slot)) == 0) return;
  needed_ &= ~bit(slot);
  windows_ &= ~bit(slot);
  released_ = now;
  set_rate();
}

void SwitchWatch::tick(Clock::time_point now) {
  if (!loaded_ || !walk_rate_ || now < next_rate_) return;
  next_rate_ = now + std::chrono::nanoseconds(WalkRate::kIntervalNs);
  const auto sum = loaded_->programs.block_counters();
  if (!sum) return;
  const std::uint32_t scale = walk_rate_->update(*sum, monotonic_ns(now));
  std::atomic_ref(loaded_->programs.rate().scale).store(scale, std::memory_order_relaxed);
}

void SwitchWatch::detach_unneeded(Clock::time_point now) {
  take_closed();
  if (needed_ != 0 || now < released_ + kKept) return;
  if (loading_.valid()) (void)take_loaded();
  if (loaded_ && !closing_) close();
}

// The thread may have other calls to make first.
void SwitchWatch::close() {
  walk_rate_.reset();
  closing_ = std::exchange(loaded_, Loaded());
  detaching_ = programs_->kernel_calls().run([loaded = closing_] {
    loaded->links.clear();
    return true;
  });
}

// Frees what was closed, once it counts no more.
void SwitchWatch::take_closed() {
  if (KernelCalls::has_returned(detaching_)) {
    (void)detaching_.get();
    last_runs_ = programs_->grace_periods().begin();
  }
  if (!last_runs_ || !programs_->grace_periods().is_over(*last_runs_)) return;
  last_runs_.reset();
  if (const auto sum = closing_->programs.counters()) add_counters(closed_, *sum);
  if (const auto sum = closing_->programs.block_counters()) add_counters(closed_blocks_, *sum);
  (void)programs_->kernel_calls().run(
      [loaded = std::exchange(closing_, Loaded())]() mutable { loaded.reset(); });
}

std::uint32_t SwitchWatch::scale() const {
  if (!loaded_) return 0;
  return std::atomic_ref(loaded_->programs.rate().scale).load(std::memory_order_relaxed);
}

profd_counters SwitchWatch::counters() const {
  profd_counters sum = closed_;
  for (const Attached* const object : {closing_.get(), loaded_.get()}) {
    if (object == nullptr) continue;
    if (const auto now = object->programs.counters()) add_counters(sum, *now);
  }
  return sum;
}

profd_switch_counters SwitchWatch::block_counters() const {
  profd_switch_counters sum = closed_blocks_;
  for (const Attached* const object : {closing_.get(), loaded_.get()}) {
    if (object == nullptr) continue;
    if (const auto now = object->programs.block_counters()) add_counters(sum, *now);
  }
  return sum;
}

}  // namespace profd
