#include "daemon/history/continuous.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "collectors/host/thread_priority.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/samples/interpreted_share.h"
#include "formats/base/time_text.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;

// The memory for the samples of one window, of which there are more on a host with many CPUs.
std::uint64_t max_window_bytes() {
  constexpr std::uint64_t kLeast = std::uint64_t{32} << 20;
  constexpr std::uint64_t kOfCpu = std::uint64_t{2} << 20;
  return std::max(kLeast, kOfCpu * std::thread::hardware_concurrency());
}

// Windows that wait while another one is written: two of any size, and more short ones.
constexpr std::size_t kWaitAlways = 2;
constexpr std::size_t kMaxWaiting = 12;
constexpr std::uint64_t kMaxWaitingBytes = std::uint64_t{8} << 20;

// The last samples of a window arrive with the next drain, deferred stacks when their unwind table
// is ready.
constexpr auto kSettlePause = 100ms;
constexpr int kSettleTries = 30;
constexpr int kLastSettleTries = 10;  // at the shut-down

// How often a window of blocks is asked whether it has begun, which takes some 100 ms.
constexpr auto kBeginPause = 10ms;

// Of max_bytes, for windows of blocks.
constexpr std::uint64_t kPartOfBlocks = 4;

// Of a try, unless the rings are empty before.
constexpr int kSettleDrains = 20;

// After a step, the clock may be set back, so no window is removed because of its age for a while.
constexpr auto kClockStep = 1min;
constexpr auto kClockDistrust = 1h;

// What of the configuration is one instance's.
ContinuousConfig part_of(ContinuousConfig config, bool of_blocks) {
  if (of_blocks) {
    config.enabled = config.enabled && config.off_cpu;
    config.frequency_hz = 0;
    config.max_bytes /= kPartOfBlocks;
  }
  config.off_cpu = false;
  return config;
}

}  // namespace

Continuous::Continuous(Parts parts, WindowStore store)
    : parts_(std::move(parts)),
      store_(std::move(store)),
      timer_(parts_.io),
      written_(parts_.io),
      hours_made_(parts_.io),
      ended_(parts_.io),
      cleaning_timer_(parts_.io),
      cleaned_(parts_.io),
      wall_read_(parts_.wall_clock()),
      steady_read_(Steady::now()) {
  config_.enabled = false;
  if (!store_.windows().empty()) last_written_ = utc_text(store_.windows().back().end);
}

void Continuous::configure(const ContinuousConfig& config) {
  const ContinuousConfig own = part_of(config, parts_.of_blocks);
  const bool is_started = running_ || !own.enabled;
  if (stopping_) return;
  if (!std::exchange(cleaning_, true)) spawn(parts_.io, keep_clean());
  if (own == config_ && is_started) return;
  config_ = own;
  reconfigured_ = running_;
  timer_.cancel();
  if (!config_.enabled || running_ || !ready_to_write()) return;
  running_ = true;
  begin();
  start_hours();
  spawn(parts_.io, run());
}

StatusInfo::Continuous Continuous::status() const {
  StatusInfo::Continuous status{
      .enabled = config_.enabled,
      .frequency_hz = config_.frequency_hz,
      .window_seconds = static_cast<std::uint64_t>(config_.window.count()),
      .windows = store_.windows().size(),
      .hours = store_.hours().size(),
      .disk_bytes = store_.disk_bytes(),
      .oldest = {},
      .last_written = last_written_,
      .waiting = waiting_.size() + (writing_ ? 1 : 0),
      .malformed = store_.malformed(),
      .failed = failed_,
      .lost_samples = lost_samples_,
      .over_share_samples = over_share_samples_};
  std::optional<Wall::time_point> oldest;
  if (!store_.windows().empty()) oldest = store_.windows().front().start;
  if (!store_.hours().empty()) {
    const Wall::time_point hour = store_.hours().front().start;
    oldest = std::min(oldest.value_or(hour), hour);
  }
  if (oldest) status.oldest = utc_text(*oldest);
  return status;
}

boost::asio::awaitable<void> Continuous::shut_down() {
  stopping_ = true;
  timer_.cancel();
  cleaning_timer_.cancel();
  while (running_) {
    co_await ended_.wait();
  }
  while (writing_) {
    co_await written_.wait();
  }
  while (making_hours_) {
    co_await hours_made_.wait();
  }
  while (cleaning_) {
    co_await cleaned_.wait();
  }
}

boost::asio::awaitable<void> Continuous::run() {
  while (!stopping_) {
    if (open_ && !open_->has_begun) {
      co_await finish_begin();
      if (stopping_) break;
    }
    const Steady::duration left = config_.enabled ? until_next_boundary() : Steady::duration(24h);
    if (!reconfigured_) {
      co_await sleep(left);
    }
    reconfigured_ = false;
    if (!stopping_ && open_) {
      co_await end_window();
    }
    if (!stopping_ && config_.enabled && !open_) begin();
  }
  if (open_ && !open_->has_begun) {
    drop_unbegun();
  } else if (open_) {
    co_await close_last();
  }
  running_ = false;
  ended_.notify_all();
}

// A window of blocks begins when the threads of the host are watched.
boost::asio::awaitable<void> Continuous::finish_begin() {
  while (!stopping_) {
    const Result<bool> begun = parts_.source.has_begun(open_->slot);
    if (!begun) {
      (void)parts_.aggregator.close(open_->slot);
      open_.reset();
      fail_to_begin(begun.error());
      parts_.sampling_changed();
      co_return;
    }
    if (*begun) break;
    co_await sleep(kBeginPause);
  }
  if (stopping_) co_return;
  open_->has_begun = true;
  open_->start = parts_.wall_clock();
  open_->start_steady = Steady::now();
  failing_to_begin_ = false;
}

// At the shut-down: it has no samples.
void Continuous::drop_unbegun() {
  parts_.source.end_matching(open_->slot);
  (void)parts_.source.stop(open_->slot);
  (void)parts_.aggregator.close(open_->slot);
  open_.reset();
  parts_.sampling_changed();
}

boost::asio::awaitable<void> Continuous::sleep(Steady::duration time) {
  timer_.expires_after(time);
  co_await wait_for(timer_);
}

boost::asio::awaitable<void> Continuous::end_window() {
  const OpenWindow window = *std::exchange(open_, std::nullopt);
  const bool same_event = window.event.frequency_hz == config_.frequency_hz;
  if (config_.enabled && same_event) {
    if (const auto next = parts_.source.move_to_new_slot(window.slot)) open(*next, window.event);
  }
  const Steady::time_point end = Steady::now();
  if (!open_) parts_.source.end_matching(window.slot);
  co_await settle(window.slot);
  co_await read_jit_sources(window.slot);
  co_await close(window, end);
  if (!open_) parts_.sampling_changed();
}

boost::asio::awaitable<void> Continuous::settle(SessionSlot slot) {
  for (int tries = 0; tries < (stopping_ ? kLastSettleTries : kSettleTries); ++tries) {
    co_await sleep(kSettlePause);
    for (int drains = 0; drains < kSettleDrains && parts_.source.drain(); ++drains) {
      co_await yield();
    }
    if (parts_.source.is_settled(slot)) co_return;
  }
}

// Reads what JIT runtimes have written about the code in the window's samples.
boost::asio::awaitable<void> Continuous::read_jit_sources(SessionSlot slot) {
  if (parts_.naming == nullptr || stopping_) co_return;
  std::vector<ProcessKey> processes = timed_processes(parts_.aggregator.samples(slot));
  if (processes.empty()) co_return;
  co_await parts_.naming->read_to_end(std::move(processes));
}

// Starts the parser when it is first needed.
bool Continuous::ready_to_write() {
  if (writer_) return true;
  Result<std::unique_ptr<Parser>> parser = parts_.start_parser();
  if (!parser) {
    log::error("continuous mode can't keep windows: {}", parser.error().message);
    count_failure(WindowFailure::kNotBegun);
    return false;
  }
  writer_ = std::make_unique<WindowWriter>(store_.windows_dir(), std::move(*parser),
                                           parts_.kernel_symbols);
  return true;
}

Worker& Continuous::worker() {
  if (!worker_) worker_.emplace(parts_.of_blocks ? "block-worker" : "window-worker");
  return *worker_;
}

// If it fails, for example because the event can't be opened, run() tries again when the next
// window is due.
void Continuous::begin() {
  const Result<EventSpec> event =
      make_event_spec(parts_.of_blocks ? kOffCpuEvent : "cpu", config_.frequency_hz, 0);
  if (!event) {
    log::error("continuous mode can't keep windows: {}", event.error().message);
    count_failure(WindowFailure::kNotBegun);
    return;
  }
  Target target;
  target.all = true;
  target.is_window = true;
  const Result<SessionSlot> slot = parts_.source.start(*event, target);
  if (!slot) return fail_to_begin(slot.error());
  open(*slot, *event);
  open_->has_begun = !event->has_blocks();
  if (open_->has_begun) failing_to_begin_ = false;
  parts_.sampling_changed();
}

// It is tried again at each window, and need not be logged each time.
void Continuous::fail_to_begin(const Error& why) {
  count_failure(WindowFailure::kNotBegun);
  if (std::exchange(failing_to_begin_, true)) return;
  log::warn("could not begin a window{}: {}", parts_.of_blocks ? " of off-CPU time" : "",
            why.message);
}

void Continuous::open(SessionSlot slot, const EventSpec& event) {
  parts_.aggregator.open(slot, max_window_bytes(), false, MemoryShares::kUsers);
  open_ = OpenWindow{
      .slot = slot, .event = event, .start = parts_.wall_clock(), .start_steady = Steady::now()};
}

boost::asio::awaitable<void> Continuous::close(const OpenWindow& window, Steady::time_point end) {
  (void)read_clock();
  SessionSnapshot snapshot;
  snapshot.started = window.start;
  snapshot.started_monotonic = window.start_steady.time_since_epoch();
  snapshot.lasted = end - window.start_steady;
  snapshot.event = window.event;
  snapshot.bpf_functions = parts_.source.bpf_functions();
  snapshot.ledger = parts_.source.stop(window.slot);
  add_samples(snapshot, parts_.aggregator.close(window.slot), parts_.aggregator.processes());
  share_code(snapshot, parts_.aggregator.codes(), parts_.source);
  if (parts_.naming != nullptr) {
    co_await parts_.naming->resolve_in_time(snapshot);
  }
  const auto is_needed = [this](const ProcessKey& key) { return parts_.source.needs(key); };
  enqueue({.snapshot = std::move(snapshot),
           .forgotten = parts_.aggregator.forget_processes(is_needed)});
}

// At the shut-down.
boost::asio::awaitable<void> Continuous::close_last() {
  const OpenWindow window = *std::exchange(open_, std::nullopt);
  const Steady::time_point end = Steady::now();
  parts_.source.end_matching(window.slot);
  co_await settle(window.slot);
  co_await close(window, end);
  parts_.sampling_changed();
}

bool Continuous::has_room_for(const EndedWindow& window) const {
  if (waiting_.size() < kWaitAlways) return true;
  std::uint64_t bytes = window.snapshot.bytes;
  for (const EndedWindow& other : waiting_) bytes += other.snapshot.bytes;
  return waiting_.size() < kMaxWaiting && bytes <= kMaxWaitingBytes;
}

// A window that is lost is destroyed here, so that the memory stays bounded while the worker hangs.
void Continuous::enqueue(EndedWindow window) {
  if (!has_room_for(window)) {
    lose(WindowFailure::kWriterBusy, window.snapshot.samples,
         "too many windows wait to be written");
    return;
  }
  waiting_.push_back(std::move(window));
  if (std::exchange(writing_, true)) return;
  spawn(parts_.io, write_waiting());
}

boost::asio::awaitable<void> Continuous::write_waiting() {
  while (!waiting_.empty()) {
    EndedWindow window = std::move(waiting_.front());
    waiting_.pop_front();
    window.snapshot.session = store_.unused_name(window.snapshot.started);
    const std::uint64_t samples = window.snapshot.samples;
    bool is_disk_full = false;
    auto write = [writer = writer_.get(), &is_disk_full, window = std::move(window),
                  users = store_.window_limits(max_bytes())]() mutable {
      Result<WindowInfo> written = writer->write(window.snapshot, users);
      is_disk_full = writer->is_disk_full();
      const PriorityOfIoThread priority;  // the io thread allocated the window
      window = {};
      return written;
    };
    Result<WindowInfo> written = co_await worker().run(std::move(write));
    parts_.source.release_files();
    if (written) {
      adopt(std::move(*written));
    } else {
      lose(is_disk_full ? WindowFailure::kNoSpace : WindowFailure::kIo, samples,
           written.error().message);
    }
    co_await remove_old();
  }
  writing_ = false;
  written_.notify_all();
  start_hours();
}

boost::asio::awaitable<void> Continuous::remove_old() {
  const Wall::time_point now = read_clock();
  EvictedFiles evicted = store_.evict(limits(), now);
  if (evicted.windows.empty() && evicted.hours.empty()) co_return;
  auto remove = [windows_dir = store_.windows_dir(), hours_dir = store_.hours_dir(),
                 evicted = std::move(evicted)]() -> Result<std::size_t> {
    return remove_history_files(windows_dir, evicted.windows) +
           remove_history_files(hours_dir, evicted.hours);
  };
  const Result<std::size_t> left = co_await worker().run(std::move(remove));
  count_failure(WindowFailure::kNotRemoved, left ? *left : 1);
}

void Continuous::adopt(WindowInfo written) {
  if (std::exchange(failing_, false)) log::info("windows are written again");
  last_written_ = utc_text(written.end);
  count_over_share(written.over_share_samples, std::exchange(written.over_share_by_uid, {}));
  store_.adopt(std::move(written));
}

void Continuous::count_over_share(std::uint64_t samples, const SamplesByUser& by_uid) {
  over_share_samples_ += samples;
  if (parts_.refusals == nullptr) return;
  for (const auto& [uid, of_user] : by_uid) {
    parts_.refusals->add(uid, "continuous.over_share_samples", of_user);
  }
}

void Continuous::count_failure(WindowFailure failure, std::uint64_t windows) {
  if (windows != 0) failed_[std::string(name_of(failure))] += windows;
}

void Continuous::lose(WindowFailure failure, std::uint64_t samples, const std::string& why) {
  count_failure(failure);
  lost_samples_ += samples;
  if (!std::exchange(failing_, true)) log::warn("a window is lost: {}", why);
}

// The time to the next multiple of the window on the wall clock, at least a quarter of a window:
// with a slow wall clock a timer expires a little early.
Continuous::Steady::duration Continuous::until_next_boundary() const {
  const auto window = std::chrono::duration_cast<Wall::duration>(config_.window);
  const auto now = parts_.wall_clock().time_since_epoch();
  const auto left = window - now % window;
  return left < window / 4 ? left + window : left;
}

// Files grow old, and a reload changes the limits, also where no window is written.
boost::asio::awaitable<void> Continuous::keep_clean() {
  while (!stopping_) {
    cleaning_timer_.expires_after(parts_.cleaning_interval);
    co_await wait_for(cleaning_timer_);
    if (!stopping_) {
      co_await remove_old();
    }
  }
  cleaning_ = false;
  cleaned_.notify_all();
}

// The time by the wall clock, for what depends on the age of files. Each call compares both clocks
// since the last one, so that limits() know of a step before anything is removed.
Continuous::Wall::time_point Continuous::read_clock() {
  const Wall::time_point wall = parts_.wall_clock();
  const Steady::time_point steady = Steady::now();
  const auto by_wall = wall - std::exchange(wall_read_, wall);
  const auto by_steady = steady - std::exchange(steady_read_, steady);
  const auto apart = by_wall > by_steady ? by_wall - by_steady : by_steady - by_wall;
  if (apart > kClockStep) clock_stepped_at_ = steady;
  return wall;
}

// Both instances together have max_bytes of the configuration.
std::uint64_t Continuous::max_bytes() const {
  if (parts_.of_blocks || !parts_.other_bytes) return config_.max_bytes;
  return config_.max_bytes - std::min(parts_.other_bytes(), config_.max_bytes / kPartOfBlocks);
}

// After read_clock().
WindowLimits Continuous::limits() const {
  const bool is_clock_reliable =
      !clock_stepped_at_ || Steady::now() - *clock_stepped_at_ > kClockDistrust;
  constexpr std::chrono::seconds kNever = 24h * 36'500;
  return {.max_age = is_clock_reliable ? config_.max_age : kNever,
          .max_bytes = max_bytes(),
          .hours_max_age = is_clock_reliable ? config_.hours_max_age : kNever};
}

}  // namespace profd
