#include "collectors/sampling/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <thread>
#include <utility>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/record.h"
#include "collectors/bpf/ring_reader.h"
#include "collectors/files/mapped_files.h"
#include "collectors/host/host_checks.h"
#include "collectors/sampling/event_sets.h"
#include "collectors/sampling/target_filter.h"
#include "collectors/sampling/unmap_watch.h"
#include "collectors/unwinding/unwinding.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSettleTimeout{1};
constexpr std::chrono::milliseconds kSettlePause{1};
constexpr std::chrono::seconds kHotplugInterval{1};
// Not for restricted sessions: whoever starts them must not shut the administrator out.
constexpr std::size_t kKeptSlots = 8;

// Adds up the counters of all CPUs, word by word: the struct is nothing but such words.
Result<profd_counters> sum_counters(int map) {
  constexpr std::size_t kWords = sizeof(profd_counters) / sizeof(std::uint64_t);
  using Words = std::array<std::uint64_t, kWords>;
  static_assert(sizeof(Words) == sizeof(profd_counters));
  std::vector<Words> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(map, &zero, cpus.data()) != 0) return fail_errno("read the counters");
  Words total{};
  for (const Words& words : cpus) {
    for (std::size_t i = 0; i < kWords; ++i) total[i] += words[i];
  }
  return std::bit_cast<profd_counters>(total);
}

std::uint64_t kernel_losses(const profd_counters& counters) {
  std::uint64_t total = 0;
  for (const std::uint64_t lost : counters.lost) total += lost;
  return total;
}

bool is_balanced(const profd_counters& counters) {
  return counters.taken ==
         counters.sent + counters.idle + counters.filtered + kernel_losses(counters);
}

}  // namespace

class Sampler::Impl final : public RingReader::Handler {
 public:
  explicit Impl(SampleSink& sink) : sink_(sink) {}
  Result<void> open(const SamplerOptions& options);

  Result<SessionSlot> start(const EventSpec& event, const Target& target);
  Result<SessionSlot> hand_over(SessionSlot slot);
  bool is_settled(SessionSlot slot) const;
  SlotLedger stop(SessionSlot slot);
  std::size_t drain();
  SlotLedger slot_ledger(SessionSlot slot) const;
  SamplerLedger ledger() const;

  void on_record(std::span<const std::byte> bytes) noexcept override;

  int wake_fd() const { return wake_.get(); }
  UnwindStats unwind_stats() const { return unwinding_->stats(); }
  bool has_targets(SessionSlot slot) const { return filter_->has_targets(slot); }
  void release_files() { files_.release_unused(); }
  Unwinding& unwinding() { return *unwinding_; }
  UnmapWatch& unmap_watch() { return *unmap_watch_; }

 private:
  // A session's place. Kernel counters only grow, so a slot's counts are those since its start.
  struct Slot {
    enum class State { kFree, kLive, kRetired } state = State::kFree;
    unsigned event_set = 0;
    SlotLedger before;  // raw counts when it was started
    std::uint64_t received = 0;
    std::uint64_t malformed = 0;
  };

  Result<void> watch(int fd);
  Result<SessionSlot> find_slot(bool restricted) const;
  void take_slot(SessionSlot slot, unsigned event_set);
  profd_counters counters() const;
  profd_counters balanced_counters() const;
  SlotLedger raw_ledger(SessionSlot slot) const;
  bool settle(SessionSlot slot);
  void on(const SampleView& sample) noexcept;
  void hand_on(const SampleView& sample) noexcept;
  void on(const MappingView& mapping) noexcept;
  void on(const ProcessView& process) noexcept { sink_.on_process(process); }
  void on(const UnmapView& unmap) noexcept { sink_.on_unmap(unmap); }

  SampleSink& sink_;
  MappedFiles files_;
  std::optional<Programs> programs_;
  std::optional<TargetFilter> filter_;
  std::optional<UnmapWatch> unmap_watch_;
  std::unique_ptr<Unwinding> unwinding_;
  std::optional<RingReader> rings_;
  UniqueFd wake_;  // an epoll of all that wakes us
  int counters_map_ = -1;
  std::array<Slot, PROFD_MAX_SESSIONS> slots_;
  std::optional<EventSets> events_;
  std::uint64_t received_ = 0;
  std::uint64_t malformed_ = 0;
  Clock::time_point next_refresh_{};
};

Result<void> Sampler::Impl::open(const SamplerOptions& options) {
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
  // Listing ourselves is how the programs learn which PID namespace is ours.
  if (auto self = programs_->list_tasks(static_cast<std::uint32_t>(::getpid())); !self) {
    return self.error();
  }
  auto filter = TargetFilter::open(*programs_);
  if (!filter) return filter.error();
  filter_.emplace(std::move(*filter));
  auto unmap_watch = UnmapWatch::open(*programs_);
  if (!unmap_watch) return unmap_watch.error();
  unmap_watch_.emplace(std::move(*unmap_watch));
  auto rings = RingReader::open(programs_->rings(), *this);
  if (!rings) return rings.error();
  rings_.emplace(std::move(*rings));
  auto unwinding = Unwinding::open(*programs_, files_, options.unwinding,
                                   [this](const SampleView& sample) { hand_on(sample); });
  if (!unwinding) return unwinding.error();
  unwinding_ = std::move(*unwinding);
  wake_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake_.valid()) return fail_errno("create an epoll descriptor");
  if (auto watched = watch(rings_->wake_fd()); !watched) return watched;
  return watch(unwinding_->wake_fd());
}

Result<void> Sampler::Impl::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno("wait for the kernel");
  }
  return {};
}

Result<SessionSlot> Sampler::Impl::find_slot(bool restricted) const {
  const std::span places(slots_.data(), slots_.size() - (restricted ? kKeptSlots : 0));
  const auto free = std::ranges::find(places, Slot::State::kFree, &Slot::state);
  if (free != places.end()) return static_cast<SessionSlot>(free - places.begin());
  return fail(ErrorCode::kBusy,
              "all " + std::to_string(places.size()) + " session slots are in use",
              "stop a session first");
}

void Sampler::Impl::take_slot(SessionSlot slot, unsigned event_set) {
  slots_[slot] = Slot{.state = Slot::State::kLive, .event_set = event_set, .before = {}};
  slots_[slot].before = raw_ledger(slot);
}

Result<SessionSlot> Sampler::Impl::start(const EventSpec& event, const Target& target) {
  const bool restricted = target.restrict_to.has_value();
  const auto slot = find_slot(restricted);
  if (!slot) return slot.error();
  const auto set = events_->use(event, restricted, counters());
  if (!set) return set.error();
  take_slot(*slot, *set);
  if (auto added = filter_->add(*slot, *set, target); !added) {
    settle(*slot);
    events_->release(*set, counters());
    slots_[*slot].state = Slot::State::kFree;
    return added.error();
  }
  return *slot;
}

Result<SessionSlot> Sampler::Impl::hand_over(SessionSlot slot) {
  const auto next = find_slot(false);
  if (!next) return next.error();
  const unsigned set = slots_[slot].event_set;
  take_slot(*next, set);
  events_->share(set);
  filter_->hand_over(slot, *next, set);
  return *next;
}

bool Sampler::Impl::is_settled(SessionSlot slot) const {
  const SlotLedger now = slot_ledger(slot);
  std::uint64_t accounted = now.received;
  for (const std::uint64_t lost : now.lost) accounted += lost;
  return accounted == now.taken;
}

SlotLedger Sampler::Impl::stop(SessionSlot slot) {
  filter_->stop_matching(slot);
  programs_->wait_for_running_programs();
  const bool settled = settle(slot);
  const SlotLedger last = slot_ledger(slot);
  filter_->remove(slot);
  events_->release(slots_[slot].event_set, counters());
  // What did not arrive may still do so, and must not be taken for another session's.
  slots_[slot].state = settled ? Slot::State::kFree : Slot::State::kRetired;
  return last;
}

// Drains until every sample of a slot that matches no more is accounted for. What still waits for a
// table at the end is handed on without. False when some never came.
bool Sampler::Impl::settle(SessionSlot slot) {
  const Clock::time_point limit = Clock::now() + kSettleTimeout;
  for (;;) {
    drain();
    if (Clock::now() >= limit) unwinding_->flush(1U << slot);
    if (is_settled(slot)) return true;
    if (Clock::now() >= limit) return false;
    std::this_thread::sleep_for(kSettlePause);
  }
}

std::size_t Sampler::Impl::drain() {
  const std::uint64_t before = received_;
  rings_->drain();
  unwinding_->poll();
  if (const Clock::time_point now = Clock::now(); now >= next_refresh_) {
    next_refresh_ = now + kHotplugInterval;
    events_->refresh();
  }
  return static_cast<std::size_t>(received_ - before);
}

void Sampler::Impl::on_record(std::span<const std::byte> bytes) noexcept {
  const std::optional<Record> record = parse_record(bytes);
  if (record) {
    std::visit([this](const auto& view) { on(view); }, *record);
    return;
  }
  ++malformed_;
  for (std::uint32_t rest = sessions_of_refused(bytes); rest != 0; rest &= rest - 1) {
    ++slots_[static_cast<unsigned>(std::countr_zero(rest))].malformed;
  }
}

void Sampler::Impl::on(const SampleView& sample) noexcept {
  if (sample.deferred != nullptr) {
    unwinding_->on_deferred_sample(sample);
  } else {
    hand_on(sample);
  }
}

void Sampler::Impl::hand_on(const SampleView& sample) noexcept {
  ++received_;
  for (std::uint32_t rest = sample.sessions; rest != 0; rest &= rest - 1) {
    ++slots_[static_cast<unsigned>(std::countr_zero(rest))].received;
  }
  sink_.on_sample(sample);
}

void Sampler::Impl::on(const MappingView& mapping) noexcept {
  auto file = files_.find_or_open(mapping);
  unwinding_->on_mapping(mapping, file);
  sink_.on_mapping(mapping, std::move(file));
}

profd_counters Sampler::Impl::counters() const {
  const auto sum = sum_counters(counters_map_);
  return sum ? *sum : profd_counters{};
}

// A tick that runs while the counters are read has been taken and is nothing else yet: look again,
// also a little later, since its virtual CPU may stand still in the middle. A real difference
// stays.
profd_counters Sampler::Impl::balanced_counters() const {
  constexpr int kTries = 10;
  profd_counters sum = counters();
  for (int i = 1; i < kTries && !is_balanced(sum); ++i) {
    std::this_thread::sleep_for(kSettlePause);
    sum = counters();
  }
  return sum;
}

SlotLedger Sampler::Impl::raw_ledger(SessionSlot slot) const {
  const profd_counters sum = counters();
  SlotLedger raw;
  raw.taken = sum.session_taken[slot];
  raw.received = slots_[slot].received;
  std::ranges::copy(sum.session_lost[slot], raw.lost.begin());
  raw.lost[static_cast<std::size_t>(Loss::kMalformedRecord)] = slots_[slot].malformed;
  return raw;
}

SlotLedger Sampler::Impl::slot_ledger(SessionSlot slot) const {
  SlotLedger ledger = raw_ledger(slot);
  const SlotLedger& before = slots_[slot].before;
  ledger.taken -= before.taken;
  ledger.received -= before.received;
  for (std::size_t i = 0; i < kLossCount; ++i) ledger.lost[i] -= before.lost[i];
  return ledger;
}

SamplerLedger Sampler::Impl::ledger() const {
  const profd_counters sum = balanced_counters();
  SamplerLedger ledger{.taken = sum.taken,
                       .sent = sum.sent,
                       .idle = sum.idle,
                       .filtered = sum.filtered,
                       .outside_namespace = sum.outside_namespace,
                       .received = received_,
                       .malformed = malformed_,
                       .waiting = unwinding_->waiting(),
                       .lost = {},
                       .not_followed = sum.not_followed,
                       .mapping_records = sum.mapping_records,
                       .mapping_records_lost = sum.mapping_records_lost,
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

Result<std::unique_ptr<Sampler>> Sampler::open(const SamplerOptions& options, SampleSink& sink) {
  auto impl = std::make_unique<Impl>(sink);
  if (auto opened = impl->open(options); !opened) return opened.error();
  return std::unique_ptr<Sampler>(new Sampler(std::move(impl)));
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::~Sampler() = default;

Result<SessionSlot> Sampler::start(const EventSpec& event, const Target& target) {
  return impl_->start(event, target);
}
Result<SessionSlot> Sampler::hand_over(SessionSlot slot) { return impl_->hand_over(slot); }
bool Sampler::is_settled(SessionSlot slot) const { return impl_->is_settled(slot); }
SlotLedger Sampler::stop(SessionSlot slot) { return impl_->stop(slot); }
std::size_t Sampler::drain() { return impl_->drain(); }
int Sampler::wake_fd() const { return impl_->wake_fd(); }
bool Sampler::has_targets(SessionSlot slot) const { return impl_->has_targets(slot); }
SlotLedger Sampler::slot_ledger(SessionSlot slot) const { return impl_->slot_ledger(slot); }
SamplerLedger Sampler::ledger() const { return impl_->ledger(); }
UnwindStats Sampler::unwind_stats() const { return impl_->unwind_stats(); }
void Sampler::set_jit_code_rows(const ProcessKey& process, std::uint32_t owner,
                                std::uint32_t region, std::string_view table) {
  impl_->unwinding().set_jit_code_rows(process, owner, region, table);
}
Result<void> Sampler::watch_unmaps(const ProcessKey& process, std::span<const AddressRange> spans) {
  return impl_->unmap_watch().set(process, spans);
}
void Sampler::release_files() { impl_->release_files(); }

}  // namespace profd
