#include "collectors/off_cpu/open_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "collectors/off_cpu/block_estimate.h"
#include "collectors/off_cpu/unsampled_balance.h"

namespace profd {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kCertain = 0;  // as a chance

// The programs stay so long after the last session (switch_watch.h), and send ends until then.
constexpr std::uint64_t kIdsLastNs = 5'000'000'000;

constexpr std::size_t kMaxBalances = 65'536;  // all are forgotten when there are more

constexpr std::uint32_t slot_bit(SessionSlot slot) { return std::uint32_t{1} << slot; }

template <class Visit>
void for_each_slot(std::uint32_t sessions, Visit visit) {
  for (; sessions != 0; sessions &= sessions - 1) {
    visit(static_cast<SessionSlot>(std::countr_zero(sessions)));
  }
}

// A sample with its words.
struct OwnedSample {
  SampleView view{};
  std::vector<std::uint64_t> words;

  explicit OwnedSample(const SampleView& sample) : view(sample) {
    words.reserve(sample.kernel_frames.size() + sample.user_frames.size() +
                  sample.mapping_ids.size());
    words.assign(sample.kernel_frames.begin(), sample.kernel_frames.end());
    words.insert(words.end(), sample.user_frames.begin(), sample.user_frames.end());
    words.insert(words.end(), sample.mapping_ids.begin(), sample.mapping_ids.end());
    view.words = words;
    view.kernel_frames = view.words.first(sample.kernel_frames.size());
    view.user_frames = view.words.subspan(sample.kernel_frames.size(), sample.user_frames.size());
    view.mapping_ids = view.words.last(sample.mapping_ids.size());
  }
  OwnedSample(const OwnedSample&) = delete;
  OwnedSample& operator=(const OwnedSample&) = delete;
  ~OwnedSample() = default;
};

// Kernel threads and the like have no user stack that could be missing. The sample of one that was
// chosen went to an earlier session.
profd_user_end end_of(const WholeBlockView& block) {
  if (block.user_ip == 0 || block.context >= PROFD_CONTEXT_KTHREAD) return PROFD_END_NO_USER_STACK;
  return block.is_from_before || block.was_chosen ? PROFD_END_BEFORE_START : PROFD_END_NOT_TAKEN;
}

// Borrows the frames, and has no words.
SampleView sample_of(const WholeBlockView& block) {
  return {.process = block.process,
          .time_ns = block.start_ns,
          .period = 1,
          .tid = block.tid,
          .cpu = 0,
          .sessions = block.sessions,
          .owner = block.owner,
          .context = block.context,
          .user_end = end_of(block),
          .kernel_truncated = block.kernel_frames.size() == PROFD_MAX_KERNEL_FRAMES,
          .event_set = 0,
          .thread = block.thread,
          .words = {},
          .kernel_frames = block.kernel_frames,
          .user_frames = block.user_frames,
          .mapping_ids = block.mapping_ids,
          .count = 1,
          .block = {.id = block.id, .chance = 0, .state = block.state}};
}

// What is checked again when it has waited: an end, or a block whose thread has a later one.
struct Waiting {
  std::uint64_t id = 0;
  std::uint64_t deadline_ns = 0;  // 0: it came since the last tick
};

// An estimate of which only what is beyond the block itself is multiplied.
std::uint64_t balanced(std::uint64_t estimate, std::uint64_t own, double factor, double& rest) {
  if (factor == 1) return estimate;
  rest += static_cast<double>(estimate - std::min(own, estimate)) * factor;
  const double whole = std::floor(rest);
  rest -= whole;
  return own + static_cast<std::uint64_t>(whole);
}

void set_deadlines(std::deque<Waiting>& queue, std::uint64_t deadline_ns) {
  for (auto place = queue.rbegin(); place != queue.rend() && place->deadline_ns == 0; ++place) {
    place->deadline_ns = deadline_ns;
  }
}

}  // namespace

struct OpenBlocks::Parts {
  // Until when the session in a slot has a block that is open. Of an earlier session that had the
  // slot, it is before the start of the present one.
  struct Counted {
    SessionSlot slot = 0;
    std::uint64_t until_ns = 0;
  };

  struct Block {
    ProcessKey process;
    std::uint64_t start_ns = 0;
    std::optional<std::uint32_t> chance;  // none: it was not chosen
    std::uint32_t sessions = 0;
    std::uint32_t tid = 0;
    std::uint32_t user = 0;
    bool is_from_before = false;
    std::shared_ptr<const OwnedSample> sample;  // null: there was no room
    std::vector<Counted> counted{};             // one for each slot that was delivered a part

    [[nodiscard]] std::size_t bytes() const;
    // By deliver_ongoing(); 0: nothing of it was.
    [[nodiscard]] std::uint64_t counted_until(SessionSlot slot) const;
    void set_counted(SessionSlot slot, std::uint64_t until_ns);
  };
  using Blocks = std::unordered_map<std::uint64_t, Block>;

  struct Session {
    bool is_open = false;
    std::uint64_t opened_ns = 0;
    std::uint64_t start_ns = kNever;
    std::uint64_t end_ns = kNever;
    std::uint64_t long_ns = 0;
    // After move(): the slot that continues it, unless that has been opened again since.
    std::optional<SessionSlot> continued_by{};
    std::uint64_t continued_ns = 0;
    BlockEstimator estimator{0};
    double rest_of_blocks = 0;  // of balanced estimates, as they are rounded down
    double rest_of_ns = 0;
    BlockLedger ledger{};
  };

  // How much of a block counts, and where it came to its end.
  struct Until {
    std::uint64_t end_ns = 0;
    bool is_ongoing = false;
  };

  Parts(UserOf users, Deliver sink) : user_of(std::move(users)), deliver(std::move(sink)) {}

  [[nodiscard]] std::uint32_t open_sessions() const;
  [[nodiscard]] std::uint32_t wanting(std::uint32_t mask, std::uint64_t time_ns) const;
  void count(const Block& block, const SampleView* sample, std::uint32_t slots, Until until);
  [[nodiscard]] std::optional<BlockSpan> part_of(const Block& block, const BlockSpan& whole,
                                                 SessionSlot slot) const;
  [[nodiscard]] bool is_open_in(Blocks::const_iterator place, SessionSlot slot,
                                std::uint64_t before_ns) const;
  [[nodiscard]] std::optional<OngoingBlock> ongoing_part(const Block& block, SessionSlot slot,
                                                         std::uint64_t until_ns,
                                                         BlockEstimator& estimator) const;
  void add_ongoing(BlockLedger& ledger, const Block& block, SessionSlot slot,
                   std::uint64_t until_ns, const OngoingBlock& ongoing) const;
  [[nodiscard]] UnsampledBalance::Factors take_factors(const Block& block, std::uint32_t slots,
                                                       std::uint64_t ns);
  void note_unsampled(const SampleView& sample);
  static void add_to_ledger(BlockLedger& ledger, const Block& block, const SampleView& sample,
                            const BlockTerm& term);
  [[nodiscard]] bool counts_by_weight(const Block& block, const BlockSpan& whole,
                                      SessionSlot slot) const;
  void start(Block block, const SampleView& sample);
  void insert(std::uint64_t id, Block block, const SampleView& sample);
  void follow_thread(std::uint64_t id, const Block& block);
  Blocks::iterator erase(Blocks::iterator place);
  [[nodiscard]] bool has_room(std::uint32_t user, std::size_t size) const;
  void add_bytes(std::uint32_t user, std::size_t size);
  void remove_bytes(std::uint32_t user, std::size_t size);
  void expect(std::uint64_t id, std::uint32_t more_sessions);
  void ignore_end(std::uint64_t id);
  void count_no_start(std::uint64_t number);
  void forget_all_if_unneeded();

  UserOf user_of;
  Deliver deliver;
  std::array<Session, PROFD_MAX_SESSIONS> sessions{};
  Blocks blocks{};
  std::map<ProcessKey, std::size_t> blocks_of_process{};
  std::unordered_map<std::uint32_t, std::uint64_t> block_of_thread{};  // the latest one
  std::unordered_map<std::uint32_t, UnsampledBalance> balances{};      // by thread
  // Ends whose block has not arrived, by its id.
  std::unordered_map<std::uint64_t, std::uint64_t> ends{};
  std::deque<Waiting> new_ends{};
  // Blocks whose thread has a later one: their end is lost, or lies in another ring.
  std::deque<Waiting> overtaken{};
  // Blocks that no session has any more, and whose end is still to come.
  std::unordered_set<std::uint64_t> ignored{};
  std::uint64_t last_end_ns = 0;  // of a session
  // Sessions of a block that the kernel lists before its sample has arrived, or after it has ended.
  std::unordered_map<std::uint64_t, std::uint32_t> listed{};
  std::deque<Waiting> new_listed{};
  std::size_t without_room = 0;
  std::size_t bytes = 0;
  std::size_t bytes_of_users = 0;
  std::unordered_map<std::uint32_t, std::size_t> bytes_of_user{};
};

std::size_t OpenBlocks::Parts::Block::bytes() const {
  constexpr std::size_t kOverhead = 192;  // of the entries in the maps, and of the allocator
  if (!sample) return 0;
  return sizeof(Block) + sizeof(OwnedSample) + kOverhead +
         sample->words.capacity() * sizeof(std::uint64_t);
}

std::uint64_t OpenBlocks::Parts::Block::counted_until(SessionSlot slot) const {
  const auto known = std::ranges::find(counted, slot, &Counted::slot);
  return known == counted.end() ? 0 : known->until_ns;
}

void OpenBlocks::Parts::Block::set_counted(SessionSlot slot, std::uint64_t until_ns) {
  const auto known = std::ranges::find(counted, slot, &Counted::slot);
  if (known != counted.end()) {
    known->until_ns = until_ns;
  } else {
    counted.push_back({.slot = slot, .until_ns = until_ns});
  }
}

std::uint32_t OpenBlocks::Parts::open_sessions() const {
  std::uint32_t open = 0;
  for (SessionSlot slot = 0; slot < sessions.size(); ++slot) {
    if (sessions[slot].is_open) open |= slot_bit(slot);
  }
  return open;
}

// The sessions of a record that are open, and those that continue them. A slot that was opened
// after `time_ns`, when the mask was made, was another session's then.
std::uint32_t OpenBlocks::Parts::wanting(std::uint32_t mask, std::uint64_t time_ns) const {
  std::uint32_t wanted = 0;
  for_each_slot(mask, [&](SessionSlot slot) {
    const Session* session = &sessions[slot];
    if (time_ns < session->opened_ns) return;
    wanted |= slot_bit(slot);
    for (std::size_t moves = 0; session->continued_by && moves < sessions.size(); ++moves) {
      const Session& next = sessions[*session->continued_by];
      if (next.opened_ns != session->continued_ns) return;
      wanted |= slot_bit(*session->continued_by);
      session = &next;
    }
  });
  return wanted & open_sessions();
}

void OpenBlocks::Parts::count(const Block& block, const SampleView* sample, std::uint32_t slots,
                              Until until) {
  const BlockSpan whole{.start_ns = block.start_ns,
                        .end_ns = std::max(block.start_ns, until.end_ns)};
  const UnsampledBalance::Factors factors = take_factors(block, slots, whole.ns());
  for_each_slot(slots, [&](SessionSlot slot) {
    Session& session = sessions[slot];
    const std::optional<BlockSpan> part = part_of(block, whole, slot);
    if (!part) return;
    const auto estimate = session.estimator.estimate(whole, *part, block.chance);
    if (!estimate) return;
    const BlockTerm term{
        .blocks = balanced(estimate->blocks, 1, factors.blocks, session.rest_of_blocks),
        .ns = balanced(estimate->ns, part->ns(), factors.ns, session.rest_of_ns)};
    if (sample == nullptr) {
      session.ledger.no_room += term;
      return;
    }
    SampleView valued = *sample;
    valued.sessions = slot_bit(slot);
    valued.count = term.blocks;
    valued.block.ns = term.ns;
    valued.block.own_ns = part->ns();
    valued.block.is_ongoing = until.is_ongoing || whole.end_ns > session.end_ns;
    add_to_ledger(session.ledger, block, valued, term);
    if (counts_by_weight(block, whole, slot)) session.ledger.by_weight += term;
    deliver(valued);
  });
}

// That which counts for the session in the slot, and has not counted for it yet.
std::optional<BlockSpan> OpenBlocks::Parts::part_of(const Block& block, const BlockSpan& whole,
                                                    SessionSlot slot) const {
  const Session& session = sessions[slot];
  if (session.start_ns == kNever) return std::nullopt;
  const std::uint64_t start_ns = std::max(session.start_ns, block.counted_until(slot));
  if (whole.end_ns < start_ns || whole.start_ns > session.end_ns) return std::nullopt;
  return whole.within({.start_ns = start_ns, .end_ns = std::max(start_ns, session.end_ns)});
}

bool OpenBlocks::Parts::counts_by_weight(const Block& block, const BlockSpan& whole,
                                         SessionSlot slot) const {
  return whole.ns() < sessions[slot].long_ns && block.chance && *block.chance != kCertain;
}

// Whether the slot has the block, and had it at a time that is not its start.
bool OpenBlocks::Parts::is_open_in(Blocks::const_iterator place, SessionSlot slot,
                                   std::uint64_t before_ns) const {
  return place != blocks.end() && (place->second.sessions & slot_bit(slot)) != 0 &&
         place->second.start_ns < before_ns;
}

// Without a sample where there was no room for it. What is owed to the thread's blocks
// (unsampled_balance.h) is settled at the end of the block.
std::optional<OngoingBlock> OpenBlocks::Parts::ongoing_part(const Block& block, SessionSlot slot,
                                                            std::uint64_t until_ns,
                                                            BlockEstimator& estimator) const {
  const BlockSpan whole{.start_ns = block.start_ns, .end_ns = until_ns};
  const std::optional<BlockSpan> part = part_of(block, whole, slot);
  if (!part || part->ns() == 0) return std::nullopt;
  const auto estimate = estimator.estimate(whole, *part, block.chance);
  if (!estimate) return std::nullopt;
  OngoingBlock ongoing{.term = {.blocks = estimate->blocks, .ns = estimate->ns},
                       .own_ns = part->ns()};
  if (block.sample) {
    ongoing.sample = std::shared_ptr<const SampleView>(block.sample, &block.sample->view);
  }
  return ongoing;
}

void OpenBlocks::Parts::add_ongoing(BlockLedger& ledger, const Block& block, SessionSlot slot,
                                    std::uint64_t until_ns, const OngoingBlock& ongoing) const {
  if (!ongoing.sample) {
    ledger.no_room += ongoing.term;
    return;
  }
  add_to_ledger(ledger, block, ongoing.valued(slot), ongoing.term);
  const BlockSpan whole{.start_ns = block.start_ns, .end_ns = until_ns};
  if (counts_by_weight(block, whole, slot)) ledger.by_weight += ongoing.term;
}

// Of a block that stands for more than itself, in one of the sessions.
UnsampledBalance::Factors OpenBlocks::Parts::take_factors(const Block& block, std::uint32_t slots,
                                                          std::uint64_t ns) {
  bool has_weight = false;
  for_each_slot(slots, [&](SessionSlot slot) { has_weight |= ns < sessions[slot].long_ns; });
  if (!has_weight || ns == 0 || !block.chance || *block.chance == kCertain) return {};
  const double beyond = std::ldexp(1.0, 32) / *block.chance - 1;
  if (balances.size() == kMaxBalances) balances.clear();
  return balances[block.tid].take(beyond, beyond * static_cast<double>(ns));
}

void OpenBlocks::Parts::note_unsampled(const SampleView& sample) {
  if (sample.block.unsampled == 0) return;
  if (balances.size() == kMaxBalances) balances.clear();
  balances[sample.tid].add({.blocks = sample.block.unsampled, .ns = sample.block.unsampled_ns});
}

void OpenBlocks::Parts::add_to_ledger(BlockLedger& ledger, const Block& block,
                                      const SampleView& sample, const BlockTerm& term) {
  ledger.delivered += term;
  if (sample.user_end == PROFD_END_NOT_TAKEN) ledger.without_stack += term;
  if (block.is_from_before) ledger.from_before += term;
  if (sample.block.is_ongoing) ledger.ongoing += term;
}

// `block` has neither its user nor its sample yet.
void OpenBlocks::Parts::start(Block block, const SampleView& sample) {
  const std::uint64_t id = sample.block.id;
  if (const auto known = listed.find(id); known != listed.end()) {
    block.sessions |= known->second & open_sessions();
    listed.erase(known);
  }
  const auto end = ends.find(id);
  if (end != ends.end()) {
    const Until until{.end_ns = end->second};
    ends.erase(end);
    const OwnedSample owned(sample);
    count(block, &owned.view, block.sessions, until);
  } else if (block.sessions != 0) {
    insert(id, std::move(block), sample);
  } else {
    ignore_end(id);
  }
}

void OpenBlocks::Parts::insert(std::uint64_t id, Block block, const SampleView& sample) {
  if (blocks.contains(id)) return;
  ignored.erase(id);
  block.user = user_of(block.process);
  block.sample = std::make_shared<const OwnedSample>(sample);
  const std::size_t size = block.bytes();
  if (has_room(block.user, size)) {
    add_bytes(block.user, size);
  } else if (without_room < kMaxWaitingEnds) {
    block.sample.reset();
    ++without_room;
  } else {
    for_each_slot(block.sessions,
                  [&](SessionSlot slot) { ++sessions[slot].ledger.no_room.blocks; });
    ignore_end(id);
    return;
  }
  follow_thread(id, block);
  ++blocks_of_process[block.process];
  blocks.insert_or_assign(id, std::move(block));
}

// A thread has one block at a time. The records of two CPUs may arrive in either order.
void OpenBlocks::Parts::follow_thread(std::uint64_t id, const Block& block) {
  const auto [latest, is_new] = block_of_thread.try_emplace(block.tid, id);
  if (is_new) return;
  const auto other = blocks.find(latest->second);
  if (other != blocks.end() && other->second.start_ns > block.start_ns) {
    overtaken.push_back({.id = id});
    return;
  }
  if (other != blocks.end()) overtaken.push_back({.id = other->first});
  latest->second = id;
}

OpenBlocks::Parts::Blocks::iterator OpenBlocks::Parts::erase(Blocks::iterator place) {
  const Block& block = place->second;
  if (block.sample) {
    remove_bytes(block.user, block.bytes());
  } else {
    --without_room;
  }
  const auto latest = block_of_thread.find(block.tid);
  if (latest != block_of_thread.end() && latest->second == place->first) {
    block_of_thread.erase(latest);
  }
  const auto number = blocks_of_process.find(block.process);
  if (--number->second == 0) blocks_of_process.erase(number);
  return blocks.erase(place);
}

bool OpenBlocks::Parts::has_room(std::uint32_t user, std::size_t size) const {
  if (bytes + size > kMaxBytes) return false;
  if (user == 0) return true;
  if (bytes_of_users + size > kMaxBytesOfUsers) return false;
  const auto own = bytes_of_user.find(user);
  return own == bytes_of_user.end() || own->second + size <= kMaxBytesOfUser;
}

void OpenBlocks::Parts::add_bytes(std::uint32_t user, std::size_t size) {
  bytes += size;
  if (user == 0) return;
  bytes_of_users += size;
  bytes_of_user[user] += size;
}

void OpenBlocks::Parts::remove_bytes(std::uint32_t user, std::size_t size) {
  bytes -= size;
  if (user == 0) return;
  bytes_of_users -= size;
  const auto own = bytes_of_user.find(user);
  own->second -= size;
  if (own->second == 0) bytes_of_user.erase(own);
}

void OpenBlocks::Parts::expect(std::uint64_t id, std::uint32_t more_sessions) {
  const auto [place, is_new] = listed.try_emplace(id, 0);
  place->second |= more_sessions;
  if (is_new) new_listed.push_back({.id = id});
}

// Without room the end is counted as one without a start.
void OpenBlocks::Parts::ignore_end(std::uint64_t id) {
  if (ignored.size() < kMaxWaitingEnds) ignored.insert(id);
}

// An end does not say whose block it is.
void OpenBlocks::Parts::count_no_start(std::uint64_t number) {
  for_each_slot(open_sessions(),
                [&](SessionSlot slot) { sessions[slot].ledger.no_start += number; });
}

// Without a session no further end has a start here.
void OpenBlocks::Parts::forget_all_if_unneeded() {
  if (open_sessions() != 0) return;
  balances.clear();
  ends.clear();
  new_ends.clear();
  overtaken.clear();
  listed.clear();
  new_listed.clear();
}

OpenBlocks::OpenBlocks(UserOf user_of, Deliver deliver)
    : parts_(std::make_unique<Parts>(std::move(user_of), std::move(deliver))) {}

OpenBlocks::~OpenBlocks() = default;

void OpenBlocks::open(SessionSlot slot, std::uint64_t now_ns, std::uint64_t long_ns) {
  if (parts_->open_sessions() == 0 && now_ns >= parts_->last_end_ns + kIdsLastNs) {
    parts_->ignored.clear();
  }
  Parts::Session session;
  session.is_open = true;
  session.opened_ns = now_ns;
  session.long_ns = long_ns;
  session.estimator = BlockEstimator(long_ns);
  parts_->sessions[slot] = session;
}

void OpenBlocks::begin(SessionSlot slot, std::uint64_t start_ns) {
  parts_->sessions[slot].start_ns = start_ns;
}

void OpenBlocks::end(SessionSlot slot, std::uint64_t end_ns) {
  Parts::Session& session = parts_->sessions[slot];
  session.end_ns = std::min(session.end_ns, end_ns);
}

bool OpenBlocks::is_open(SessionSlot slot) const { return parts_->sessions[slot].is_open; }

void OpenBlocks::on_start(const SampleView& sample) noexcept {
  Parts::Block block{.process = sample.process,
                     .start_ns = sample.time_ns,
                     .chance = sample.block.chance,
                     .sessions = parts_->wanting(sample.sessions, sample.time_ns),
                     .tid = sample.tid,
                     .user = 0,
                     .is_from_before = false,
                     .sample = nullptr};
  parts_->note_unsampled(sample);
  parts_->start(std::move(block), sample);
}

void OpenBlocks::on_end(const BlockEndView& end) noexcept {
  Parts& parts = *parts_;
  if (parts.ignored.erase(end.id) != 0 || parts.open_sessions() == 0) return;
  const auto place = parts.blocks.find(end.id);
  if (place != parts.blocks.end()) {
    const Parts::Block& block = place->second;
    parts.count(block, block.sample ? &block.sample->view : nullptr, block.sessions,
                {.end_ns = end.end_ns});
    parts.erase(place);
    return;
  }
  if (parts.ends.size() >= kMaxWaitingEnds) {
    parts.count_no_start(1);
    return;
  }
  parts.ends.insert_or_assign(end.id, end.end_ns);
  parts.new_ends.push_back({.id = end.id});
}

void OpenBlocks::on_whole(const WholeBlockView& block) noexcept {
  Parts& parts = *parts_;
  // A block that is open is listed as one of the sessions that are live then. The list may wait: a
  // slot can be another session's by now, which may not see the block.
  const std::uint32_t sessions =
      parts.wanting(block.sessions, block.is_open ? block.end_ns : block.start_ns);
  if (sessions == 0) {
    // Its end follows all the same.
    const bool has_id_of_list = block.is_open && !block.was_chosen;
    if (has_id_of_list && parts.ends.erase(block.id) == 0) parts.ignore_end(block.id);
    return;
  }
  if (block.is_open) {
    const auto known = parts.blocks.find(block.id);
    if (known != parts.blocks.end()) {
      known->second.sessions |= sessions;
      return;
    }
  }
  if (block.was_chosen && parts.wanting(block.sessions, block.start_ns) != 0) {
    // Its sample has not arrived.
    if (parts.listed.size() < kMaxWaitingEnds) parts.expect(block.id, sessions);
    return;
  }
  Parts::Block whole{.process = block.process,
                     .start_ns = block.start_ns,
                     .chance = std::nullopt,
                     .sessions = sessions,
                     .tid = block.tid,
                     .user = 0,
                     .is_from_before = block.is_from_before,
                     .sample = nullptr};
  // One from before is always listed, however long it lasts.
  if (block.is_from_before) whole.chance = kCertain;
  if (block.is_open) {
    parts.start(std::move(whole), sample_of(block));
    return;
  }
  const OwnedSample owned(sample_of(block));
  parts.count(whole, &owned.view, sessions, {.end_ns = block.end_ns});
}

void OpenBlocks::tick(std::uint64_t now_ns) {
  Parts& parts = *parts_;
  set_deadlines(parts.new_ends, now_ns + kEndWaitNs);
  set_deadlines(parts.overtaken, now_ns + kEndWaitNs);
  set_deadlines(parts.new_listed, now_ns + kEndWaitNs);
  std::uint64_t without_start = 0;
  for (; !parts.new_ends.empty() && parts.new_ends.front().deadline_ns <= now_ns;
       parts.new_ends.pop_front()) {
    without_start += parts.ends.erase(parts.new_ends.front().id);
  }
  if (without_start != 0) parts.count_no_start(without_start);
  for (; !parts.new_listed.empty() && parts.new_listed.front().deadline_ns <= now_ns;
       parts.new_listed.pop_front()) {
    parts.listed.erase(parts.new_listed.front().id);
  }
  for (; !parts.overtaken.empty() && parts.overtaken.front().deadline_ns <= now_ns;
       parts.overtaken.pop_front()) {
    const auto place = parts.blocks.find(parts.overtaken.front().id);
    if (place == parts.blocks.end()) continue;
    for_each_slot(place->second.sessions,
                  [&](SessionSlot slot) { ++parts.sessions[slot].ledger.no_end; });
    parts.erase(place);
  }
}

void OpenBlocks::close(SessionSlot slot,
                       const std::optional<std::vector<std::uint64_t>>& open_ids) {
  Parts& parts = *parts_;
  Parts::Session& session = parts.sessions[slot];
  std::unordered_set<std::uint64_t> listed;
  if (open_ids) listed.insert(open_ids->begin(), open_ids->end());
  // The window that continues this one would wait for a lost end too, and the next ones.
  const std::uint32_t with_next = parts.wanting(slot_bit(slot), session.opened_ns);
  for (auto place = parts.blocks.begin(); place != parts.blocks.end();) {
    Parts::Block& block = place->second;
    if ((block.sessions & slot_bit(slot)) == 0) {
      ++place;
      continue;
    }
    const bool is_open = !open_ids || listed.contains(place->first);
    block.sessions &= ~(is_open ? slot_bit(slot) : with_next);
    if (is_open) {
      parts.count(block, block.sample ? &block.sample->view : nullptr, slot_bit(slot),
                  {.end_ns = session.end_ns, .is_ongoing = true});
    } else {
      ++session.ledger.no_end;
    }
    if (block.sessions != 0) {
      ++place;
      continue;
    }
    if (is_open) parts.ignore_end(place->first);
    place = parts.erase(place);
  }
  session.is_open = false;
  if (session.end_ns != kNever) parts.last_end_ns = std::max(parts.last_end_ns, session.end_ns);
  if (parts.open_sessions() == 0) session.ledger.no_start += parts.ends.size();
  parts.forget_all_if_unneeded();
}

void OpenBlocks::move(SessionSlot from, SessionSlot to, std::uint64_t now_ns) {
  Parts& parts = *parts_;
  open(to, now_ns, parts.sessions[from].long_ns);
  begin(to, now_ns);
  end(from, now_ns);
  parts.sessions[from].continued_by = to;
  parts.sessions[from].continued_ns = now_ns;
  for (auto& [id, block] : parts.blocks) {
    if ((block.sessions & slot_bit(from)) != 0) block.sessions |= slot_bit(to);
  }
}

OngoingBlocks OpenBlocks::ongoing(SessionSlot slot, std::uint64_t until_ns,
                                  std::span<const std::uint64_t> open_ids) const {
  const Parts& parts = *parts_;
  BlockEstimator estimator = parts.sessions[slot].estimator;
  OngoingBlocks found;
  found.blocks.reserve(std::min(open_ids.size(), parts.blocks.size()));
  for (const std::uint64_t id : open_ids) {
    const auto place = parts.blocks.find(id);
    if (!parts.is_open_in(place, slot, until_ns)) continue;
    const Parts::Block& block = place->second;
    std::optional<OngoingBlock> part = parts.ongoing_part(block, slot, until_ns, estimator);
    if (!part) continue;
    parts.add_ongoing(found.ledger, block, slot, until_ns, *part);
    if (part->sample) found.blocks.push_back(std::move(*part));
  }
  return found;
}

// Also of a block that stands for none, since it was not chosen and is not long: those that were
// stand for its part, too.
void OpenBlocks::deliver_ongoing(SessionSlot slot, std::uint64_t until_ns,
                                 std::span<const std::uint64_t> open_ids) {
  Parts& parts = *parts_;
  Parts::Session& session = parts.sessions[slot];
  for (const std::uint64_t id : open_ids) {
    const auto place = parts.blocks.find(id);
    if (!parts.is_open_in(place, slot, until_ns)) continue;
    Parts::Block& block = place->second;
    const auto part = parts.ongoing_part(block, slot, until_ns, session.estimator);
    block.set_counted(slot, until_ns);
    if (part) parts.add_ongoing(session.ledger, block, slot, until_ns, *part);
    if (part && part->sample) parts.deliver(part->valued(slot));
  }
}

const BlockLedger& OpenBlocks::ledger(SessionSlot slot) const {
  return parts_->sessions[slot].ledger;
}

bool OpenBlocks::has(const ProcessKey& process) const {
  return parts_->blocks_of_process.contains(process);
}

std::size_t OpenBlocks::size() const { return parts_->blocks.size(); }

std::size_t OpenBlocks::bytes() const { return parts_->bytes; }

}  // namespace profd
