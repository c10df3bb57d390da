#include "collectors/sampling/sampler.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

#include "collectors/bpf/cpu_sums.h"
#include "collectors/bpf/kernel_calls.h"
#include "collectors/bpf/programs.h"
#include "collectors/bpf/record.h"
#include "collectors/files/mapped_files.h"
#include "collectors/host/clock.h"
#include "collectors/host/host_checks.h"
#include "collectors/interpreters/codes.h"
#include "collectors/off_cpu/open_blocks.h"
#include "collectors/sampling/event_sets.h"
#include "collectors/sampling/session_slots.h"
#include "collectors/sampling/slot_masks.h"
#include "collectors/sampling/switch_watch.h"
#include "collectors/sampling/target_filter.h"
#include "collectors/sampling/unmap_watch.h"
#include "collectors/unwinding/unwinding.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

// What the rings hold at a stop is taken in so many drains, unless it never ends.
constexpr unsigned kMaxLastDrains = 4;
// For the files of the last samples' mappings: one whose open hangs is not waited for.
constexpr std::chrono::milliseconds kOpenTimeout{100};
// Reading an event wakes up its CPU. In continuous mode, which drains every 4 s, each drain by time
// does it.
constexpr std::chrono::milliseconds kHotplugInterval{1500};
constexpr std::chrono::microseconds kTickTime{500};
constexpr std::chrono::seconds kMaxBalancedAge{6};
// Of open blocks, in one drain: each takes some microseconds.
constexpr std::size_t kMaxListedAtOnce = 4096;

Rank rank_of(const Target& target) {
  if (target.restrict_to) return Rank::kUnprivileged;
  return target.is_window ? Rank::kContinuous : Rank::kPrivileged;
}

std::uint64_t monotonic_now_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

// What a slot of the event uses, without its event set.
EventUse block_use_of(const EventSpec& event) {
  EventUse use;
  use.blocked = event.kind == EventKind::kOffCpu || event.kind == EventKind::kWall;
  use.runnable = event.kind == EventKind::kRunnable || event.kind == EventKind::kWall;
  return use;
}

BlockTerm to_term(const profd_block_term& term) { return {.blocks = term.count, .ns = term.ns}; }

// The kernel's terms; those of user space stay.
void set_kernel_terms(BlockLedger& ledger, const profd_block_counters& counters) {
  ledger.blocked = to_term(counters.blocked);
  ledger.sampled = to_term(counters.sampled);
  ledger.long_unsampled = to_term(counters.long_unsampled);
  ledger.short_unsampled = to_term(counters.short_unsampled);
  std::ranges::transform(counters.lost, ledger.lost.begin(), to_term);
}

bool is_balanced(const profd_counters& counters) {
  const std::uint64_t not_lost = counters.sent + counters.idle + counters.filtered;
  return counters.taken ==
         std::accumulate(std::begin(counters.lost), std::end(counters.lost), not_lost);
}

// The Sampler over the kernel. A sample's way goes from the record reader through the unwinding,
// which makes its stack whole, to on_sample() here, which counts it and passes it to the sink.
class KernelSampler final : public Sampler, private SampleSink {
 public:
  explicit KernelSampler(SampleSink& sink) : sink_(sink) {}
  Result<void> open(const SamplerOptions& options);

  Result<SessionSlot> start(const EventSpec& event, const Target& target) override;
  Result<bool> has_begun(SessionSlot slot) override;
  Result<SessionSlot> move_to_new_slot(SessionSlot slot) override;
  void end_matching(SessionSlot slot) override;
  void list_blocks(SessionSlot slot) override;
  [[nodiscard]] bool is_listing_blocks(SessionSlot slot) const override {
    return slots_[slot].is_listing();
  }
  [[nodiscard]] OngoingBlocks ongoing_blocks(SessionSlot slot) const override;
  bool deliver_ongoing_blocks(SessionSlot slot) override;
  [[nodiscard]] bool is_settled(SessionSlot slot) const override;
  SlotLedger stop(SessionSlot slot) override;
  bool drain() override;
  [[nodiscard]] int wake_fd() const override { return wake_.get(); }
  [[nodiscard]] bool has_targets(SessionSlot slot) override { return filter_->has_targets(slot); }
  [[nodiscard]] SlotLedger slot_ledger(SessionSlot slot) const override;
  [[nodiscard]] SamplerLedger ledger() override;
  [[nodiscard]] std::vector<BpfFunction> bpf_functions() const override;
  [[nodiscard]] UnwindStats unwind_stats() const override { return unwinding_->stats(); }
  [[nodiscard]] InterpreterStats interpreter_stats() override;
  [[nodiscard]] std::map<FileKey, profd_runtime> interpreters() const override {
    return unwinding_->runtimes().by_file();
  }
  [[nodiscard]] InterpreterFiles refused_interpreters() const override {
    return unwinding_->runtimes().refused();
  }
  [[nodiscard]] std::optional<OffCpuStats> off_cpu_stats() const override;
  [[nodiscard]] bool needs(const ProcessKey& process) const override {
    return open_blocks_->has(process);
  }
  void set_jit_code_rows(const ProcessKey& process, std::uint32_t owner, std::uint32_t area,
                         EncodeTable encode) override {
    unwinding_->set_jit_code_rows(process, owner, area, std::move(encode));
  }
  Result<void> watch_unmaps(const ProcessKey& process,
                            std::span<const AddressRange> ranges) override {
    return unmap_watch_->set(process, ranges);
  }
  void release_files() override { files_.release_unused(); }
  void detach_unneeded_hooks() override;

 private:
  // A list of open blocks, which is passed on in parts: a host may have 100,000.
  struct OpenListing {
    std::string bytes{};
    std::vector<WholeBlockView> blocks{};  // borrow the bytes
    std::size_t next = 0;
  };

  // A session's place. The kernel's counters only grow, so a slot's counts are those since its
  // start.
  struct Slot {
    EventUse use{};
    EventKind kind = EventKind::kPerf;
    SlotLedger before{};          // the slot's counters when the session started
    BlockLedger blocks_before{};  // the kernel's terms of its blocks then; they grow once it counts
    std::uint64_t received = 0;
    bool has_targets = false;  // all of them are in the filter
    bool has_blocks_begun = false;
    SwitchWatch::OpenList open_list{};  // of the begin, of list_blocks(), and later of the end
    OpenListing listing{};              // of it, once it was made
    std::uint64_t asked_ns = 0;         // for it: what it lists was open then, or began later
    std::size_t next_ongoing = 0;       // of its blocks
    // Since no tick matches it:
    std::optional<std::uint64_t> grace_period{};
    std::uint64_t opens = 0;  // MappedFiles::submitted() by then
    Clock::time_point opens_end{};
    bool is_listed = false;  // the list of the end was made, or could not be
    std::optional<std::vector<std::uint64_t>> open_ids{};  // of the last list

    [[nodiscard]] bool is_listing() const { return open_list.valid() || !listing.blocks.empty(); }
    [[nodiscard]] bool waits_for_list() const {
      return has_blocks_begun && grace_period && !is_listed;
    }
    // Whether open_ids are blocks that its session, which goes on, still has.
    [[nodiscard]] bool has_open_list() const {
      return has_blocks_begun && !grace_period && !is_listing() && open_ids.has_value();
    }
  };

  void on_sample(const SampleView& sample) noexcept override;
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> file) noexcept override {
    sink_.on_mapping(mapping, std::move(file));
  }
  void on_process(const ProcessView& process) noexcept override { sink_.on_process(process); }
  void on_unmap(const UnmapView& unmap) noexcept override { sink_.on_unmap(unmap); }
  void on_block_end(const BlockEndView& end) noexcept override { open_blocks_->on_end(end); }
  void on_whole_block(const WholeBlockView& block) noexcept override {
    open_blocks_->on_whole(block);
  }

  Result<void> add_wake_fd(int fd);
  [[nodiscard]] Result<SessionSlot> find_slot(const SessionOwner& owner);
  void release(SessionSlot slot);
  void abandon(SessionSlot slot);
  [[nodiscard]] SessionOwner owner_of(const Target& target);
  void take_slot(SessionSlot slot, const EventUse& use, EventKind kind, const SessionOwner& owner);
  Result<bool> begin(SessionSlot slot);
  void ask_for_list(Slot& place);
  bool take_open_list(Slot& place);
  bool advance_lists();
  void deliver_tick(const SampleView& sample);
  void wait_for_last_samples(SessionSlot slot);
  bool settle(SessionSlot slot);
  [[nodiscard]] profd_counters counters() const;
  [[nodiscard]] profd_counters balanced_counters();
  [[nodiscard]] SlotLedger counters_of(SessionSlot slot) const;
  [[nodiscard]] SlotLedger counts_of(SessionSlot slot) const;
  [[nodiscard]] BlockLedger block_ledger(SessionSlot slot) const;

  SampleSink& sink_;
  MappedFiles files_;
  std::optional<Programs> programs_;
  std::optional<TargetFilter> filter_;
  std::optional<UnmapWatch> unmap_watch_;
  std::optional<SwitchWatch> switch_watch_;
  std::optional<OpenBlocks> open_blocks_;
  std::unique_ptr<Unwinding> unwinding_;
  std::unique_ptr<RecordReader> records_;
  UniqueFd wake_;  // an epoll of the descriptors that ask for a drain
  int counters_map_ = -1;
  SessionSlots uses_;
  std::array<Slot, PROFD_MAX_SESSIONS> slots_;
  std::optional<EventSets> events_;
  UidOwners owners_;
  InterpretedCodes* codes_ = nullptr;
  std::uint32_t wall_slots_ = 0;  // a mask: sessions of `wall`
  std::uint64_t received_ = 0;
  Clock::time_point next_refresh_{};
  profd_counters balanced_{};  // the last ones that did, and when
  Clock::time_point balanced_at_{};
};

Result<void> KernelSampler::open(const SamplerOptions& options) {
  if (auto missing = missing_features(read_host_facts()); !missing.empty()) return missing.front();
  auto programs = Programs::load(
      options.bpf_object.empty() ? Programs::built_in() : options.bpf_object, options.ring_bytes);
  if (!programs) return programs.error();
  programs_.emplace(std::move(*programs));
  const auto counters_map = programs_->map("profd_counters");
  const auto tick = programs_->program("profd_tick");
  if (!counters_map) return counters_map.error();
  if (!tick) return tick.error();
  counters_map_ = *counters_map;
  events_.emplace(*tick);
  owners_ = options.owners;
  codes_ = options.codes;
  // Listing profd itself is how the programs learn which PID namespace is profd's.
  if (auto self = programs_->list_tasks(static_cast<std::uint32_t>(::getpid())); !self) {
    return self.error();
  }
  auto filter = TargetFilter::open(*programs_);
  if (!filter) return filter.error();
  filter_.emplace(std::move(*filter));
  auto unmap_watch = UnmapWatch::open(*programs_);
  if (!unmap_watch) return unmap_watch.error();
  unmap_watch_.emplace(std::move(*unmap_watch));
  switch_watch_.emplace(*programs_);
  open_blocks_.emplace([this](const ProcessKey& process) { return files_.user_of(process); },
                       [this](const SampleView& sample) { sink_.on_sample(sample); });
  UnwindingOptions unwinding_options = options.unwinding;
  unwinding_options.codes = options.codes;
  auto unwinding = Unwinding::open(*programs_, files_, unwinding_options, *this);
  if (!unwinding) return unwinding.error();
  unwinding_ = std::move(*unwinding);
  auto records = RecordReader::open(
      programs_->rings(), [this](const Record& record) { unwinding_->on_record(record); });
  if (!records) return records.error();
  records_ = std::move(*records);
  wake_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake_.valid()) return fail_errno("could not create an epoll descriptor");
  if (auto added = add_wake_fd(records_->wake_fd()); !added) return added;
  if (auto added = add_wake_fd(files_.wake_fd()); !added) return added;
  return add_wake_fd(unwinding_->wake_fd());
}

Result<void> KernelSampler::add_wake_fd(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno("could not add a descriptor to an epoll");
  }
  return {};
}

Result<SessionSlot> KernelSampler::find_slot(const SessionOwner& owner) {
  uses_.free_settled([this](SessionSlot slot) { return is_settled(slot); },
                     [this](SessionSlot slot) { release(slot); });
  return uses_.find_free(owner);
}

SessionOwner KernelSampler::owner_of(const Target& target) {
  SessionOwner owner{.rank = rank_of(target)};
  if (target.restrict_to) owner.user = owners_.owner_of(target.restrict_to->uid);
  return owner;
}

void KernelSampler::take_slot(SessionSlot slot, const EventUse& use, EventKind kind,
                              const SessionOwner& owner) {
  uses_.take(slot, owner);
  Slot& place = slots_[slot];
  place = Slot();
  place.use = use;
  place.kind = kind;
  place.before = counters_of(slot);
  if (kind == EventKind::kWall) wall_slots_ |= bit(slot);
  if (use.has_blocks()) {
    set_kernel_terms(place.blocks_before, switch_watch_->block_counters().of_session[slot]);
  }
}

Result<SessionSlot> KernelSampler::start(const EventSpec& event, const Target& target) {
  const SessionOwner owner = owner_of(target);
  const auto slot = find_slot(owner);
  if (!slot) return slot.error();
  EventUse use = block_use_of(event);
  if (event.has_ticks()) {
    const auto set = events_->use(event, owner, counters());
    if (!set) return set.error();
    use.event_set = *set;
  }
  take_slot(*slot, use, event.kind, owner);
  if (use.has_blocks()) {
    switch_watch_->need(*slot, target.is_window);
    open_blocks_->open(*slot, monotonic_now_ns(),
                       target.is_window ? PROFD_WINDOW_BLOCK_LONG_NS : PROFD_BLOCK_LONG_NS);
  }
  if (auto added = filter_->add(*slot, use, target, owner); !added) {
    abandon(*slot);
    return added.error();
  }
  return *slot;
}

Result<bool> KernelSampler::has_begun(SessionSlot slot) {
  auto begun = begin(slot);
  if (!begun) abandon(slot);
  return begun;
}

// A session of blocks begins when all its threads are watched, with the blocks that are open then.
Result<bool> KernelSampler::begin(SessionSlot slot) {
  Slot& place = slots_[slot];
  if (!place.has_targets) {
    auto added = filter_->has_begun(slot);
    if (!added || !*added) return added;
    place.has_targets = true;
  }
  if (!place.use.has_blocks()) return true;
  if (!place.has_blocks_begun) {
    auto watched = switch_watch_->has_begun(slot);
    if (!watched || !*watched) return watched;
    place.has_blocks_begun = true;
    const std::uint64_t now = monotonic_now_ns();
    filter_->count_blocks_from(slot, now);
    open_blocks_->begin(slot, now);
    ask_for_list(place);
  }
  return !place.is_listing() || take_open_list(place);
}

void KernelSampler::ask_for_list(Slot& place) {
  place.asked_ns = monotonic_now_ns();
  place.next_ongoing = 0;
  place.open_ids.reset();
  place.open_list = switch_watch_->list_open_blocks();
}

void KernelSampler::list_blocks(SessionSlot slot) {
  Slot& place = slots_[slot];
  constexpr auto kIntervalNs =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(kListInterval).count());
  if (!place.has_blocks_begun || place.grace_period || place.is_listing()) return;
  if (monotonic_now_ns() < place.asked_ns + kIntervalNs) return;
  ask_for_list(place);
}

OngoingBlocks KernelSampler::ongoing_blocks(SessionSlot slot) const {
  const Slot& place = slots_[slot];
  if (!place.has_open_list()) return {};
  return open_blocks_->ongoing(slot, place.asked_ns, *place.open_ids);
}

bool KernelSampler::deliver_ongoing_blocks(SessionSlot slot) {
  Slot& place = slots_[slot];
  if (!place.has_open_list()) return false;
  const std::span<const std::uint64_t> ids(*place.open_ids);
  const std::size_t count = std::min(ids.size() - place.next_ongoing, kMaxListedAtOnce);
  open_blocks_->deliver_ongoing(slot, place.asked_ns, ids.subspan(place.next_ongoing, count));
  place.next_ongoing += count;
  return place.next_ongoing < ids.size();
}

// Passes on blocks of a list that was made, and keeps their ids. False: it is not made yet, or has
// more.
bool KernelSampler::take_open_list(Slot& place) {
  OpenListing& listing = place.listing;
  if (place.open_list.valid()) {
    if (!KernelCalls::has_returned(place.open_list)) return false;
    place.open_ids.reset();
    listing = OpenListing();
    auto bytes = place.open_list.get();
    if (!bytes) return true;
    listing.bytes = std::move(*bytes);
    auto blocks = parse_open_blocks(std::as_bytes(std::span(listing.bytes)));
    if (!blocks) return true;
    listing.blocks = std::move(*blocks);
    place.open_ids.emplace();
    place.open_ids->reserve(listing.blocks.size());
  }
  const std::size_t end = std::min(listing.blocks.size(), listing.next + kMaxListedAtOnce);
  for (; listing.next < end; ++listing.next) {
    const WholeBlockView& block = listing.blocks[listing.next];
    place.open_ids->push_back(block.id);
    unwinding_->on_record(Record(block));
  }
  if (end < listing.blocks.size()) return false;
  listing = OpenListing();
  return true;
}

// Of slots that no switch matches any more, the list of the end: then no block of theirs begins
// after it. True: there are more blocks at once.
bool KernelSampler::advance_lists() {
  bool has_more = false;
  for (Slot& place : slots_) {
    if (place.is_listing()) {
      const bool is_taken = take_open_list(place);
      if (place.waits_for_list()) place.is_listed = is_taken;
      has_more = has_more || !place.listing.blocks.empty();
    } else if (place.waits_for_list() && programs_->grace_periods().is_over(*place.grace_period)) {
      ask_for_list(place);
      place.is_listed = !place.open_list.valid();
    }
  }
  return has_more;
}

// Of a session that failed to start. The slot is released at a later start, and the programs at the
// switches must not stay until then.
void KernelSampler::abandon(SessionSlot slot) {
  end_matching(slot);
  switch_watch_->release(slot, Clock::now());
  uses_.end(slot);
}

Result<SessionSlot> KernelSampler::move_to_new_slot(SessionSlot slot) {
  const auto next = find_slot(uses_.owner(slot));
  if (!next) return next.error();
  const EventUse use = slots_[slot].use;
  take_slot(*next, use, slots_[slot].kind, uses_.owner(slot));
  if (use.event_set) events_->share(*use.event_set);
  slots_[*next].has_targets = true;
  if (use.has_blocks()) {
    const std::uint64_t now = monotonic_now_ns();
    switch_watch_->continue_window(*next);
    filter_->count_blocks_from(*next, now);
    open_blocks_->move(slot, *next, now);
    slots_[*next].has_blocks_begun = true;
  }
  filter_->move_target(slot, *next, use);
  wait_for_last_samples(slot);
  return *next;
}

void KernelSampler::release(SessionSlot slot) {
  filter_->remove(slot);
  Slot& place = slots_[slot];
  if (place.use.event_set) events_->release(*place.use.event_set, uses_.owner(slot), counters());
  if (place.use.has_blocks()) {
    if (open_blocks_->is_open(slot)) open_blocks_->close(slot, std::nullopt);
    switch_watch_->release(slot, Clock::now());
  }
  wall_slots_ &= ~bit(slot);
  // All that a slot may wait for now is its last samples.
  place.use = EventUse();
  place.has_blocks_begun = false;
}

void KernelSampler::end_matching(SessionSlot slot) {
  filter_->stop_matching(slot);
  if (slots_[slot].use.has_blocks()) open_blocks_->end(slot, monotonic_now_ns());
  wait_for_last_samples(slot);
}

// Of a slot that no tick matches any more.
void KernelSampler::wait_for_last_samples(SessionSlot slot) {
  slots_[slot].grace_period = programs_->grace_periods().begin();
  slots_[slot].opens = files_.submitted();
  slots_[slot].opens_end = Clock::now() + kOpenTimeout;
  slots_[slot].open_list = {};  // one of the begin is none of the end
  slots_[slot].listing = {};
  slots_[slot].open_ids.reset();
}

bool KernelSampler::is_settled(SessionSlot slot) const {
  const Slot& place = slots_[slot];
  if (place.grace_period && !programs_->grace_periods().is_over(*place.grace_period)) return false;
  if (files_.ended() < place.opens && Clock::now() < place.opens_end) return false;
  if (place.waits_for_list()) return false;
  const SlotLedger now = counts_of(slot);
  return now.taken == std::accumulate(now.lost.begin(), now.lost.end(), now.received);
}

SlotLedger KernelSampler::stop(SessionSlot slot) {
  if (!slots_[slot].grace_period) end_matching(slot);
  const bool settled = settle(slot);
  if (const Slot& place = slots_[slot]; place.use.has_blocks()) {
    open_blocks_->close(slot, place.is_listed ? place.open_ids : std::nullopt);
  }
  const SlotLedger last = slot_ledger(slot);
  release(slot);
  // Samples that have not arrived may still do so, and must not be counted for another session.
  if (settled) {
    uses_.free(slot);
  } else {
    uses_.retire(slot);
  }
  return last;
}

// Takes what the rings hold, and passes on stacks that still wait for a table without it. False
// when some samples have not come. A slot is settled without the ends of its blocks, which are in
// the rings too.
bool KernelSampler::settle(SessionSlot slot) {
  bool has_more = true;
  for (unsigned drains = 0; has_more && drains < kMaxLastDrains; ++drains) has_more = drain();
  if (is_settled(slot)) return true;
  unwinding_->flush(1U << slot);
  return is_settled(slot);
}

bool KernelSampler::drain() {
  const bool has_records = records_->drain();
  const bool has_more = unwinding_->poll() || has_records;
  const Clock::time_point now = Clock::now();
  const bool lists_more = advance_lists();
  open_blocks_->tick(monotonic_now_ns());
  switch_watch_->tick(now);
  if (now >= next_refresh_) {
    next_refresh_ = now + kHotplugInterval;
    events_->refresh();
    (void)balanced_counters();
  }
  return has_more || lists_more;
}

void KernelSampler::on_sample(const SampleView& sample) noexcept {
  ++received_;
  for (std::uint32_t rest = sample.sessions; rest != 0; rest &= rest - 1) {
    ++slots_[static_cast<unsigned>(std::countr_zero(rest))].received;
  }
  if (sample.block.id != 0) {
    open_blocks_->on_start(sample);
  } else {
    deliver_tick(sample);
  }
}

// For sessions of `wall` a tick stands for the time of its period. One record may be of others too.
void KernelSampler::deliver_tick(const SampleView& sample) {
  const std::uint32_t of_wall = sample.sessions & wall_slots_;
  if (of_wall == 0) {
    sink_.on_sample(sample);
    return;
  }
  SampleView part = sample;
  part.sessions = sample.sessions & ~of_wall;
  if (part.sessions != 0) sink_.on_sample(part);
  part.sessions = of_wall;
  part.block.ns = sample.period;
  sink_.on_sample(part);
}

// Of the sampling programs and of those of off-CPU: none counts what the others do.
profd_counters KernelSampler::counters() const {
  profd_counters all = switch_watch_->counters();
  if (const auto sum = sum_of_cpus<profd_counters>(counters_map_)) add_counters(all, *sum);
  return all;
}

// A tick that runs while the counters are read is counted as taken and not yet as sent or lost. So
// the counters are read again until they balance, which takes one tick. A hypervisor may suspend
// the tick's CPU: then the counters of the last drain are taken. A real difference remains.
profd_counters KernelSampler::balanced_counters() {
  const Clock::time_point begin = Clock::now();
  profd_counters sum = counters();
  while (!is_balanced(sum) && Clock::now() < begin + kTickTime) sum = counters();
  if (is_balanced(sum)) {
    balanced_ = sum;
    balanced_at_ = begin;
  }
  return begin < balanced_at_ + kMaxBalancedAge ? balanced_ : sum;
}

SlotLedger KernelSampler::counters_of(SessionSlot slot) const {
  const profd_counters sum = counters();
  SlotLedger now;
  now.taken = sum.session_taken[slot];
  now.received = slots_[slot].received;
  std::ranges::copy(sum.session_lost[slot], now.lost.begin());
  now.lost[static_cast<std::size_t>(Loss::kMalformedRecord)] = records_->malformed().samples[slot];
  return now;
}

SlotLedger KernelSampler::slot_ledger(SessionSlot slot) const {
  SlotLedger ledger = counts_of(slot);
  if (slots_[slot].use.has_blocks()) ledger.blocks = block_ledger(slot);
  return ledger;
}

BlockLedger KernelSampler::block_ledger(SessionSlot slot) const {
  BlockLedger ledger = open_blocks_->ledger(slot);
  set_kernel_terms(ledger, switch_watch_->block_counters().of_session[slot]);
  ledger -= slots_[slot].blocks_before;
  return ledger;
}

SlotLedger KernelSampler::counts_of(SessionSlot slot) const {
  SlotLedger ledger = counters_of(slot);
  const SlotLedger& before = slots_[slot].before;
  ledger.taken -= before.taken;
  ledger.received -= before.received;
  for (std::size_t i = 0; i < kLossCount; ++i) ledger.lost[i] -= before.lost[i];
  return ledger;
}

void KernelSampler::detach_unneeded_hooks() {
  const Clock::time_point now = Clock::now();
  filter_->detach_unneeded_hooks(now);
  unmap_watch_->detach_unneeded_hooks(now);
  switch_watch_->detach_unneeded(now);
  if (codes_ != nullptr) codes_->tick(now);
}

InterpreterStats KernelSampler::interpreter_stats() {
  InterpreterStats stats = unwinding_->interpreter_stats();
  stats.is_supported = programs_->has_interpreters();
  const profd_counters sum = balanced_counters();
  std::ranges::copy(sum.interpreted, stats.kernel.begin());
  return stats;
}

std::vector<BpfFunction> KernelSampler::bpf_functions() const {
  Result<std::vector<BpfFunction>> functions = programs_->list_bpf_functions();
  return functions ? std::move(*functions) : std::vector<BpfFunction>();
}

std::optional<OffCpuStats> KernelSampler::off_cpu_stats() const {
  if (!switch_watch_->was_needed()) return std::nullopt;
  const profd_switch_counters sum = switch_watch_->block_counters();
  return OffCpuStats{.threads_watched = sum.threads_watched,
                     .threads_refused = sum.threads_refused,
                     .walks = sum.walks,
                     .walks_by_chance = sum.walks_by_chance,
                     .scale = switch_watch_->scale(),
                     .ends_lost = sum.ends_lost,
                     .open_blocks = open_blocks_->size(),
                     .open_bytes = open_blocks_->bytes()};
}

SamplerLedger KernelSampler::ledger() {
  const profd_counters sum = balanced_counters();
  SamplerLedger ledger{.taken = sum.taken,
                       .sent = sum.sent,
                       .idle = sum.idle,
                       .filtered = sum.filtered,
                       .outside_namespace = sum.outside_namespace,
                       .received = received_,
                       .malformed = records_->malformed().records,
                       .waiting = unwinding_->waiting(),
                       .lost = {},
                       .not_followed = sum.not_followed,
                       .mapping_records = sum.mapping_records,
                       .mapping_records_lost = sum.mapping_records_lost,
                       .mapping_records_limited = sum.mapping_records_limited,
                       .process_records = sum.process_records,
                       .process_records_lost = sum.process_records_lost,
                       .unmap_records = sum.unmap_records,
                       .unmap_records_lost = sum.unmap_records_lost,
                       .skipped_estimate = events_->skipped(sum)};
  std::ranges::copy(sum.lost, ledger.lost.begin());
  const CpuGaps gaps = events_->gaps();
  ledger.cpu_gaps = gaps.count;
  ledger.cpu_gap_ns = static_cast<std::uint64_t>(gaps.time.count());
  return ledger;
}

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::open(const SamplerOptions& options, SampleSink& sink) {
  auto sampler = std::make_unique<KernelSampler>(sink);
  if (auto opened = sampler->open(options); !opened) return opened.error();
  return sampler;
}

}  // namespace profd
