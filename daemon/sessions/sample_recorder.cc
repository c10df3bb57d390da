#include "daemon/sessions/sample_recorder.h"

#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "collectors/host/mounts.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/samples/interpreted_share.h"
#include "daemon/samples/snapshot.h"

namespace profd {
namespace {

// A copy of a running session agrees with its ledger when no tick came in between; at 99 Hz the
// second try does. Others have their turns in between.
constexpr int kCopyTries = 20;

// For the last samples of a session, deferred stacks included.
constexpr std::chrono::seconds kSettleTimeout{1};
constexpr std::chrono::milliseconds kSettlePause{2};

// A copy has the counts of the stacks and shares their words: less than this part of the memory.
constexpr std::uint64_t kPartOfCopy = 2;

// For the list of the blocks that are open: without it, they count later.
constexpr std::chrono::seconds kListTimeout{1};

// Of these, counted in a copy in one turn: each takes about 1 us.
constexpr std::size_t kMaxCountedAtOnce = 4096;

// Until the processes of a target by pids are added.
constexpr std::chrono::milliseconds kBeginPause{1};

// `processes` is the request's target with its units and containers as cgroups.
Target target_of(const StartRequest& request, const TargetRequest& processes, const Caller& owner) {
  Target target{.all = processes.all,
                .pids = processes.pids,
                .comms = processes.comms,
                .uids = processes.uids,
                .cgroups = processes.cgroups,
                .follow_children = request.children,
                .from_exec = request.from_exec,
                .is_window = false,
                .restrict_to = std::nullopt};
  if (!owner.privileged) target.restrict_to = {.uid = owner.uid, .gid = owner.gid};
  return target;
}

// The counts of `now` without those that were part of `before`.
SlotLedger difference_of(SlotLedger now, const SlotLedger& before) {
  now.taken -= before.taken;
  now.received -= before.received;
  for (std::size_t i = 0; i < kLossCount; ++i) now.lost[i] -= before.lost[i];
  if (now.blocks && before.blocks) *now.blocks -= *before.blocks;
  return now;
}

// Lost by the kernel side or on the way, and refused by the aggregator.
std::uint64_t lost_of(const SlotLedger& ledger, std::uint64_t refused) {
  return std::accumulate(ledger.lost.begin(), ledger.lost.end(), refused);
}

}  // namespace

class SampleRecorder::SampleRecording final : public Recording {
 public:
  SampleRecording(RecordingRequest request, EventSpec event, SessionSlot slot,
                  SampleRecorder& recorder, bool with_threads)
      : Recording(std::move(request)),
        event_(std::move(event)),
        slot_(slot),
        recorder_(recorder),
        parts_(recorder.parts_) {
    const SessionLimits& limits = parts_.limits;
    const std::uint64_t limit =
        owner().privileged ? limits.session_max_bytes
                           : limits.unprivileged_max_bytes / limits.unprivileged_max_sessions;
    parts_.aggregator.open(slot_, limit, with_threads,
                           owner().privileged ? MemoryShares::kUsers : MemoryShares::kNone,
                           recorder_.nothing_charged_for(owner()));
    // Samples have the times of this clock. A block has no time: it may last longer than all that
    // is shown around it.
    if (!event_.has_blocks()) {
      parts_.aggregator.keep_times(slot_, std::chrono::steady_clock::now().time_since_epoch());
    }
    recorder_.count_running(+1);
  }

  // Another caller may stop the session meanwhile.
  boost::asio::awaitable<Result<void>> wait_until_begun() override {
    boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor);
    while (is_running()) {
      const Result<bool> begun = parts_.source.has_begun(slot_);
      if (!begun) {
        abandon();
        co_return begun.error();
      }
      if (*begun) break;
      pause.expires_after(kBeginPause);
      co_await wait_for(pause);
    }
    co_return Result<void>();
  }

  [[nodiscard]] bool has_lost_its_targets() const override {
    return is_running() && !parts_.source.has_targets(slot_);
  }

  [[nodiscard]] std::uint64_t bytes() const override {
    return are_taken_ ? final_bytes_ : parts_.aggregator.samples(slot_).bytes;
  }

  boost::asio::awaitable<Result<Measurement>> finish() override {
    co_await settle();
    auto operation = named(take_samples());
    co_return co_await std::move(operation);
  }

  boost::asio::awaitable<Result<Measurement>> copy() override {
    if (event_.has_blocks()) {
      auto copying = copy_with_ongoing();
      co_return co_await std::move(copying);
    }
    SlotLedger ledger;
    for (int tries = 0; tries < kCopyTries; ++tries) {
      if (tries != 0) {
        co_await yield();
      }
      if (are_taken_) co_return has_ended();
      ledger = difference_of(parts_.source.slot_ledger(slot_), taken_.ledger);
      parts_.source.drain();
      if (agrees_with(ledger)) break;
    }
    Result<SessionSnapshot> snapshot = copy_samples(ledger);
    if (!snapshot) co_return snapshot.error();
    if (parts_.naming != nullptr) parts_.naming->hold(*snapshot);
    auto operation = named(std::move(*snapshot));
    co_return co_await std::move(operation);
  }

  // What is on its way counts in the next part.
  boost::asio::awaitable<Result<NamedPart>> take() override {
    if (event_.has_blocks()) {
      auto delivering = deliver_ongoing();
      co_await std::move(delivering);
      if (are_taken_) co_return has_ended();
    }
    (void)parts_.source.drain();
    SessionSnapshot snapshot = empty_snapshot();
    SlotLedger now = parts_.source.slot_ledger(slot_);
    now.taken = std::accumulate(now.lost.begin(), now.lost.end(), now.received);
    snapshot.ledger = difference_of(now, taken_.ledger);
    add_samples(snapshot, parts_.aggregator.take(slot_), parts_.aggregator.processes());
    share_code(snapshot, parts_.aggregator.codes(), parts_.source);
    taken_.ledger = now;
    taken_.samples += snapshot.samples;
    taken_.refused += snapshot.refused;
    taken_.time += snapshot.lasted;
    count_refused(snapshot);
    if (parts_.naming != nullptr) parts_.naming->hold(snapshot);
    auto operation = named_part(std::move(snapshot));
    co_return co_await std::move(operation);
  }

  // A process that has ended may have samples in the rings.
  std::function<void()> on_stored() override {
    (void)parts_.source.drain();
    ForgottenImages forgotten = parts_.aggregator.forget_processes(
        [this](const ProcessKey& key) { return parts_.source.needs(key); });
    if (forgotten.empty()) return {};
    return [forgotten = std::move(forgotten)]() mutable { forgotten.destroy(); };
  }

  // The files of its samples are released with the last image or measurement that refers to them.
  void on_released() override { parts_.source.release_files(); }

 private:
  void end() override {
    if (are_taken_) return;
    final_info_.targets_alive = parts_.source.has_targets(slot_);
    parts_.source.end_matching(slot_);
  }

  // The source has ended the session, which failed to begin.
  void abandon() {
    (void)parts_.aggregator.close(slot_);
    are_taken_ = true;
    recorder_.count_running(-1);
    stop();
  }

  // Of an event that has_blocks(). The blocks that are open count up to when they were listed, in
  // the copy alone. A block counts when it is passed on, and then the aggregator has it: so the
  // ledger agrees with the samples at once, and no record may be read between both and the list.
  boost::asio::awaitable<Result<Measurement>> copy_with_ongoing() {
    auto listing = list_blocks();
    co_await std::move(listing);
    if (are_taken_) co_return has_ended();
    parts_.source.drain();
    SessionSnapshot snapshot = empty_snapshot();
    snapshot.ledger = difference_of(parts_.source.slot_ledger(slot_), taken_.ledger);
    const OngoingBlocks ongoing = parts_.source.ongoing_blocks(slot_);
    if (snapshot.ledger.blocks) *snapshot.ledger.blocks += ongoing.ledger;
    Result<SessionSamples> samples = copy_of_samples();
    if (!samples) co_return samples.error();
    const SessionSlot slot = slot_;
    for (std::size_t i = 0; i < ongoing.blocks.size(); ++i) {
      if (i != 0 && i % kMaxCountedAtOnce == 0) {
        co_await yield();
      }
      const SampleView sample = ongoing.blocks[i].valued(slot);
      parts_.aggregator.add_to(*samples, sample);
    }
    add_samples(snapshot, std::move(*samples), parts_.aggregator.processes());
    share_code(snapshot, parts_.aggregator.codes(), parts_.source);
    if (parts_.naming != nullptr) parts_.naming->hold(snapshot);
    auto operation = named(std::move(snapshot));
    co_return co_await std::move(operation);
  }

  // Passes the open blocks up to when they are listed on to the aggregator. Another caller may stop
  // the session meanwhile.
  boost::asio::awaitable<void> deliver_ongoing() {
    auto listing = list_blocks();
    co_await std::move(listing);
    bool has_more = true;
    while (has_more && !are_taken_) {
      has_more = parts_.source.deliver_ongoing_blocks(slot_);
      if (has_more) {
        co_await yield();
      }
    }
  }

  // Returns when the list of the blocks that are open has been passed on. Likewise.
  boost::asio::awaitable<void> list_blocks() {
    boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor);
    const auto end = std::chrono::steady_clock::now() + kListTimeout;
    parts_.source.list_blocks(slot_);
    while (!are_taken_ && parts_.source.is_listing_blocks(slot_) &&
           std::chrono::steady_clock::now() < end) {
      if (parts_.source.drain()) {
        co_await yield();
        continue;
      }
      pause.expires_after(kSettlePause);
      co_await wait_for(pause);
    }
  }

  // Waits for the last samples.
  boost::asio::awaitable<void> settle() {
    boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor);
    const auto end = std::chrono::steady_clock::now() + kSettleTimeout;
    for (;;) {
      const bool has_more = parts_.source.drain();
      if (parts_.source.is_settled(slot_) || std::chrono::steady_clock::now() >= end) co_return;
      if (has_more) {
        co_await yield();
        continue;
      }
      pause.expires_after(kSettlePause);
      co_await wait_for(pause);
    }
  }

  SessionSnapshot take_samples() {
    SessionSnapshot snapshot = empty_snapshot();
    const SlotLedger ledger = parts_.source.stop(slot_);
    snapshot.ledger = difference_of(ledger, taken_.ledger);
    add_samples(snapshot, parts_.aggregator.close(slot_), parts_.aggregator.processes());
    share_code(snapshot, parts_.aggregator.codes(), parts_.source);
    are_taken_ = true;
    count_refused(snapshot);
    final_info_.samples = taken_.samples + snapshot.samples;
    final_info_.lost = lost_of(ledger, taken_.refused + snapshot.refused);
    final_bytes_ = snapshot.bytes;
    if (parts_.naming != nullptr) parts_.naming->hold(snapshot);
    if (const auto dropped = parts_.aggregator.take_dropped_mappings(); dropped != 0) {
      log::warn("session {}: {} mappings were over a limit; frames in them have no names", id(),
                dropped);
    }
    recorder_.count_running(-1);
    return snapshot;
  }

  void describe(SessionInfo& info) const override {
    info.event = event_.name;
    info.frequency_hz = event_.frequency_hz;
    info.period = event_.has_blocks() ? 0 : event_.period;
    if (are_taken_) {
      info.samples = final_info_.samples;
      info.lost = final_info_.lost;
      info.targets_alive = final_info_.targets_alive;
      return;
    }
    const SessionSamples& samples = parts_.aggregator.samples(slot_);
    info.samples = taken_.samples + samples.samples;
    info.lost = lost_of(parts_.source.slot_ledger(slot_), taken_.refused + samples.refused);
    info.targets_alive =
        is_running() ? parts_.source.has_targets(slot_) : final_info_.targets_alive;
  }

  void count_refused(const SessionSnapshot& snapshot) {
    if (parts_.refusals == nullptr || owner().privileged) return;
    parts_.refusals->add(owner().uid, "ledger.lost.memory_limit", snapshot.refused);
  }

  // Of the time since the last take.
  [[nodiscard]] SessionSnapshot empty_snapshot() const {
    SessionSnapshot snapshot;
    snapshot.session = id();
    snapshot.started =
        started() + std::chrono::duration_cast<std::chrono::system_clock::duration>(taken_.time);
    snapshot.lasted = duration() - taken_.time;
    snapshot.event = event_;
    snapshot.hide_kernel = !owner().privileged;
    if (!snapshot.hide_kernel) snapshot.bpf_functions = parts_.source.bpf_functions();
    return snapshot;
  }

  [[nodiscard]] bool agrees_with(const SlotLedger& ledger) const {
    const SessionSamples& samples = parts_.aggregator.samples(slot_);
    return samples.samples + lost_of(ledger, samples.refused) == ledger.taken;
  }

  // Stopped while a dump waited for its turn.
  [[nodiscard]] Error has_ended() const {
    return fail(ErrorCode::kInvalidArgument, "session " + id() + " has ended",
                "profctl stop " + id() + " fetches it");
  }

  // Of the samples so far; null: they are not charged to a user.
  [[nodiscard]] Result<std::shared_ptr<ChargedBytes>> charge_for_copy() const {
    const SessionSamples& samples = parts_.aggregator.samples(slot_);
    if (!samples.charged) return std::shared_ptr<ChargedBytes>();
    const std::uint64_t bytes = samples.bytes / kPartOfCopy;
    if (bytes > samples.charged->room()) {
      return fail(ErrorCode::kTooLarge, "your sessions have all memory that you may have now",
                  "profctl stop " + id() + " fetches the samples");
    }
    std::shared_ptr<ChargedBytes> charged = samples.charged->another();
    charged->add(bytes);
    return charged;
  }

  [[nodiscard]] Error no_memory_for_copy() const {
    return fail(ErrorCode::kTooLarge, "no memory for a copy of the samples of " + id());
  }

  Result<SessionSnapshot> copy_samples(const SlotLedger& ledger) const {
    SessionSnapshot snapshot = empty_snapshot();
    snapshot.ledger = ledger;
    auto charged = charge_for_copy();
    if (!charged) return charged.error();
    snapshot.charged = std::move(*charged);
    try {
      add_copy(snapshot, parts_.aggregator.samples(slot_), parts_.aggregator.processes());
      share_code(snapshot, parts_.aggregator.codes(), parts_.source);
    } catch (const std::bad_alloc&) {
      return no_memory_for_copy();
    }
    return snapshot;
  }

  // The same, to which blocks can be added.
  Result<SessionSamples> copy_of_samples() const {
    auto charged = charge_for_copy();
    if (!charged) return charged.error();
    try {
      SessionSamples samples = parts_.aggregator.copy(slot_);
      samples.charged = std::move(*charged);
      return samples;
    } catch (const std::bad_alloc&) {
      return no_memory_for_copy();
    }
  }

  // With the functions of JIT code, once the runtimes' files are read up to now.
  boost::asio::awaitable<Result<Measurement>> named(SessionSnapshot taken) {
    const auto snapshot = std::make_shared<SessionSnapshot>(std::move(taken));
    if (parts_.naming != nullptr) {
      co_await parts_.naming->resolve(*snapshot);
    }
    Measurement measurement = [snapshot](CodeNaming& naming, ResultWriter& writer) {
      return write_session(*snapshot, naming, writer);
    };
    co_return measurement;
  }

  boost::asio::awaitable<Result<NamedPart>> named_part(SessionSnapshot taken) {
    const auto snapshot = std::make_shared<SessionSnapshot>(std::move(taken));
    if (parts_.naming != nullptr) {
      co_await parts_.naming->resolve(*snapshot);
    }
    NamedPart part = [snapshot, encoder = encoder_](CodeNaming& naming) {
      return encoder->encode(*snapshot, naming);
    };
    co_return part;
  }

  // What take() gave away, in all.
  struct Taken {
    SlotLedger ledger;
    std::uint64_t samples = 0;
    std::uint64_t refused = 0;
    std::chrono::nanoseconds time{};
  };

  EventSpec event_;
  SessionSlot slot_;
  SampleRecorder& recorder_;
  const Parts& parts_;
  Taken taken_;
  std::shared_ptr<PartEncoder> encoder_ = std::make_shared<PartEncoder>();  // of one take at a time
  bool are_taken_ = false;  // the last samples, and the slot is not the session's any more
  SessionInfo final_info_;  // targets_alive since end(), the rest since then
  std::uint64_t final_bytes_ = 0;
};

SampleRecorder::SampleRecorder(Parts parts)
    : parts_(parts),
      budget_(std::make_shared<SampleBudget>(parts.limits.unprivileged_samples_bytes)),
      cgroups_(parts.io, find_cgroup_mount()) {}

std::shared_ptr<ChargedBytes> SampleRecorder::nothing_charged_for(const Caller& owner) const {
  const std::optional<uid_t> user = user_of(owner, parts_.owners);
  return user ? std::make_shared<ChargedBytes>(budget_, *user) : nullptr;
}

bool SampleRecorder::records(std::string_view /*event*/) const { return true; }

boost::asio::awaitable<void> SampleRecorder::prepare(TargetRequest target) {
  if (target.units.empty() && target.containers.empty()) co_return;
  auto refreshing = cgroups_.refresh();
  co_await std::move(refreshing);
}

Result<std::shared_ptr<Recording>> SampleRecorder::start(RecordingRequest request) {
  const StartRequest& start = request.start;
  Result<EventSpec> event = make_event_spec(start.event, start.frequency_hz, start.period);
  if (!event) return event.error();
  if (!request.owner.privileged) {
    if (auto allowed = check_rate(parts_.limits, *event); !allowed) return allowed.error();
  }
  const Result<TargetRequest> processes = cgroups_.resolve(start.target);
  if (!processes) return processes.error();
  const auto slot = parts_.source.start(*event, target_of(start, *processes, request.owner));
  if (!slot) return slot.error();
  const bool with_threads = start.threads;
  return std::make_shared<SampleRecording>(std::move(request), std::move(*event), *slot, *this,
                                           with_threads);
}

void SampleRecorder::every_second() { parts_.source.detach_unneeded_hooks(); }

void SampleRecorder::count_running(std::ptrdiff_t change) {
  running_ += static_cast<std::size_t>(change);
  parts_.drain_loop.set_sessions(running_ != 0);
}

}  // namespace profd
