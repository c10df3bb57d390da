#include "daemon/samples/aggregator.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <utility>

#include "daemon/samples/jit_naming.h"
#include "daemon/samples/jit_samples.h"

namespace profd {
namespace {

// Charged for a process image beside its stacks: its entries in both tables, its names and a few
// mappings. Many short processes hold far more memory than their stacks.
constexpr std::uint64_t kProcessBytes = 2048;

// A runtime that replaces its code all the time, below deep stacks, would keep the io thread busy
// for seconds. What is not compared in time counts as a change.
constexpr std::chrono::milliseconds kMaxFoldTime{20};

constexpr std::uint64_t kPartOfTimes = 8;
constexpr std::uint64_t kTickNs = std::uint64_t{kTickMs} * 1'000'000;

constexpr std::uint64_t kPartOfUsers = 2;
constexpr std::uint64_t kPartOfUser = 8;
// While users have less than this part, one of them may have more than an eighth.
constexpr std::uint64_t kPartThatIsShared = 4;

std::uint64_t left(std::uint64_t limit, std::uint64_t used) {
  return limit - std::min(limit, used);
}

std::uint64_t room_of_session(const SessionSamples& session) {
  const std::uint64_t room = left(session.limit_bytes, session.bytes);
  return session.charged ? std::min(room, session.charged->room()) : room;
}

void add_bytes(SessionSamples& session, std::uint64_t bytes) {
  session.bytes += bytes;
  if (session.charged) session.charged->add(bytes);
}

// For stacks and processes of this user, or of root (0).
std::uint64_t room_of(const SessionSamples& session, std::uint32_t payer) {
  const std::uint64_t all = room_of_session(session);
  if (session.shares == MemoryShares::kNone || payer == 0) return all;
  const auto known = session.bytes_of_user.find(payer);
  const std::uint64_t own = known == session.bytes_of_user.end() ? 0 : known->second;
  const std::uint64_t limit = session.limit_bytes;
  return std::min({all, left(limit / kPartOfUsers, session.bytes_of_users),
                   std::max(left(limit / kPartOfUser, own),
                            left(limit / kPartThatIsShared, session.bytes_of_users))});
}

void charge(SessionSamples& session, std::uint32_t payer, std::uint64_t bytes) {
  add_bytes(session, bytes);
  if (session.shares == MemoryShares::kNone || payer == 0) return;
  session.bytes_of_user[payer] += bytes;
  session.bytes_of_users += bytes;
}

void discharge(SessionSamples& session, std::uint32_t payer, std::uint64_t bytes) {
  session.bytes -= bytes;
  if (session.charged) session.charged->remove(bytes);
  if (session.shares == MemoryShares::kNone || payer == 0) return;
  session.bytes_of_user[payer] -= bytes;
  session.bytes_of_users -= bytes;
}

// The owner of the first sample, until a sample has another owner.
void join_owner(ProcessSamples& process, const SampleView& sample, bool is_first) {
  if (is_first) {
    process.owner = sample.owner;
  } else if (process.owner != sample.owner) {
    process.owner.reset();
  }
}

// A mapping whose record has not arrived may have JIT code.
bool may_have_jit_code(const SampleView& sample, const ProcessTable& processes) {
  if (sample.mapping_ids.empty()) return false;
  const ProcessImage* image = processes.find(sample.process);
  return image == nullptr || std::ranges::any_of(sample.mapping_ids, [image](std::uint64_t id) {
           const auto mapping = image->mappings.find(id);
           return mapping == image->mappings.end() || may_be_jit_code(mapping->second);
         });
}

}  // namespace

void Aggregator::open(SessionSlot slot, std::uint64_t limit_bytes, bool with_threads,
                      MemoryShares shares, std::shared_ptr<ChargedBytes> charged) {
  SessionSamples& session = sessions_.at(slot).emplace();
  session.limit_bytes = limit_bytes;
  session.shares = shares;
  session.charged = std::move(charged);
  if (with_threads) session.threads.emplace();
}

void Aggregator::keep_times(SessionSlot slot, std::chrono::nanoseconds start) {
  SessionSamples& session = sessions_.at(slot).value();
  session.times = {.start_ns = static_cast<std::uint64_t>(start.count()),
                   .room_bytes = std::min(session.limit_bytes / kPartOfTimes, kMaxTimeBytes)};
}

SessionSamples Aggregator::close(SessionSlot slot) {
  return std::exchange(sessions_.at(slot), std::nullopt).value();
}

SessionSamples Aggregator::take(SessionSlot slot) {
  SessionSamples taken = close(slot);
  taken.times.reset();
  open(slot, taken.limit_bytes, taken.threads.has_value(), taken.shares,
       taken.charged ? taken.charged->another() : nullptr);
  return taken;
}

const SessionSamples& Aggregator::samples(SessionSlot slot) const {
  return sessions_.at(slot).value();
}

SessionSamples Aggregator::copy(SessionSlot slot) const {
  const SessionSamples& session = samples(slot);
  SessionSamples copied{.processes = {},
                        .samples = session.samples,
                        .refused = session.refused,
                        .refused_ns = session.refused_ns,
                        .tick_ns = session.tick_ns,
                        .period_sum = session.period_sum,
                        .bytes = session.bytes,
                        .limit_bytes = session.limit_bytes,
                        .shares = session.shares,
                        .bytes_of_users = session.bytes_of_users,
                        .bytes_of_user = session.bytes_of_user,
                        .threads = session.threads,
                        .times = session.times,
                        .charged = nullptr};
  copied.processes.reserve(session.processes.size());
  for (const auto& [key, process] : session.processes) {
    copied.processes.emplace(key, ProcessSamples{.stacks = process.stacks.copy_to_read(),
                                                 .jit = process.jit,
                                                 .times = process.times,
                                                 .owner = process.owner,
                                                 .payer = process.payer});
  }
  return copied;
}

void Aggregator::add_to(SessionSamples& copied, const SampleView& sample) noexcept {
  count_sample(copied, sample, StackTable::hash_of(sample));
}

ForgottenImages Aggregator::forget_processes(const IsNeeded& is_needed) {
  const auto needed = [&](const ProcessKey& key) {
    const auto has_samples = [&key](const std::optional<SessionSamples>& session) {
      return session && session->processes.contains(key);
    };
    return std::ranges::any_of(sessions_, has_samples) || (is_needed && is_needed(key));
  };
  if (naming_ != nullptr) naming_->forget_unless(needed);
  if (codes_ != nullptr) codes_->forget_unless(needed);
  return processes_.forget_unless(needed);
}

void Aggregator::on_sample(const SampleView& sample) noexcept {
  unwind_tally_.count(sample, processes_);
  const std::uint64_t hash = StackTable::hash_of(sample);
  for (std::uint32_t mask = sample.sessions; mask != 0; mask &= mask - 1) {
    std::optional<SessionSamples>& session =
        sessions_[static_cast<std::size_t>(std::countr_zero(mask))];
    if (session) count_sample(*session, sample, hash);
  }
}

void Aggregator::count_sample(SessionSamples& session, const SampleView& sample,
                              std::uint64_t hash) noexcept {
  bool added = false;
  try {
    added = add_sample(session, sample, hash);
  } catch (const std::exception&) {  // no memory for another process
  }
  if (sample.block.state == PROFD_BLOCK_NONE) session.tick_ns += sample.block.ns;
  if (!added) {
    session.refused += sample.count;
    session.refused_ns += sample.block.ns;
    return;
  }
  session.samples += sample.count;
  session.period_sum += sample.period;
}

ProcessSamples* Aggregator::find_or_add_process(SessionSamples& session,
                                                const ProcessKey& key) const {
  if (const auto found = session.processes.find(key); found != session.processes.end()) {
    return &found->second;
  }
  const std::uint32_t payer = payer_of(key);
  if (kProcessBytes > room_of(session, payer)) return nullptr;
  ProcessSamples& added = session.processes[key];
  added.payer = payer;
  charge(session, payer, kProcessBytes);
  return &added;
}

bool Aggregator::add_sample(SessionSamples& session, const SampleView& sample, std::uint64_t hash) {
  ProcessSamples* process = find_or_add_process(session, sample.process);
  if (process == nullptr) return false;
  const std::uint64_t before = process->stacks.bytes();
  const bool is_first = process->stacks.stacks().empty();
  const std::uint32_t thread = thread_of(session, sample);
  // Most stacks are known, and need no room.
  StackTable::Added added = process->stacks.add(sample, hash, 0, thread);
  if (added == StackTable::Added::kNoRoom) {
    added = process->stacks.add(sample, hash, room_of(session, process->payer), thread);
  }
  if (added == StackTable::Added::kNoRoom) {
    return add_without_frames(session, *process, sample, thread);
  }
  join_owner(*process, sample, is_first);
  charge(session, process->payer, process->stacks.bytes() - before);
  if (added == StackTable::Added::kNew && may_have_jit_code(sample, processes_)) {
    process->stacks.keep_times_of_last_counted();
  }
  keep_time(session, *process, sample);
  keep_tick(session, *process, sample);
  return true;
}

// A process has one such stack for each of its threads that are distinguished, so it takes little,
// for which the user needs no room.
bool Aggregator::add_without_frames(SessionSamples& session, ProcessSamples& process,
                                    const SampleView& sample, std::uint32_t thread) {
  if (session.shares == MemoryShares::kNone || process.payer == 0) return false;
  SampleView bare = sample;
  bare.user_end = PROFD_END_OVER_SHARE;
  bare.words = bare.kernel_frames = bare.user_frames = bare.mapping_ids = {};
  const std::uint64_t before = process.stacks.bytes();
  const bool is_first = process.stacks.stacks().empty();
  const std::uint64_t room = room_of_session(session);
  if (process.stacks.add(bare, StackTable::hash_of(bare), room, thread) ==
      StackTable::Added::kNoRoom) {
    return false;
  }
  join_owner(process, sample, is_first);
  charge(session, process.payer, process.stacks.bytes() - before);
  keep_tick(session, process, sample);
  return true;
}

// Processes of no known user have the part of one together: a user may have too many for the table,
// or fill a ring, so that their records come late.
std::uint32_t Aggregator::payer_of(const ProcessKey& key) const {
  const ProcessImage* image = processes_.find(key);
  const bool is_known = image != nullptr && image->identified;
  return is_known ? processes_.payer_of(key) : UserRefusals::kUnknownUser;
}

std::uint32_t Aggregator::thread_of(SessionSamples& session, const SampleView& sample) const {
  if (!session.threads) return 0;
  const ProcessImage* image = processes_.find(sample.process);
  const std::uint32_t payer = session.shares == MemoryShares::kUsers ? payer_of(sample.process) : 0;
  const std::uint32_t known = session.threads->size();
  const auto thread = session.threads->add(
      text_of(sample.thread), image == nullptr ? std::string_view() : image->comm, payer);
  if (session.threads->size() != known) add_bytes(session, ThreadNames::kNameBytes);
  if (!thread && refusals_ != nullptr) refusals_->add(payer, kThreadNames);
  return thread.value_or(ThreadNames::kOther);
}

// Without room for its time, a sample is still counted.
void Aggregator::keep_time(SessionSamples& session, ProcessSamples& process,
                           const SampleView& sample) {
  const std::uint32_t stack = process.stacks.last_counted();
  if (!process.stacks.stacks()[stack].is_timed) return;
  try {
    if (process.jit.is_full()) make_room(session, process, sample.process);
    if (JitLog::kEntryBytes > room_of(session, process.payer)) {
      return process.jit.drop_time(sample.count);
    }
    process.jit.add(stack, sample.time_ns, sample.count);
    charge(session, process.payer, JitLog::kEntryBytes);
  } catch (const std::exception&) {  // no memory
    process.jit.drop_time(sample.count);
  }
}

// Likewise. Once a time is not kept, later ones of other processes may be.
void Aggregator::keep_tick(SessionSamples& session, ProcessSamples& process,
                           const SampleView& sample) {
  if (!session.times) return;
  KeptTimes& times = *session.times;
  const std::uint64_t since_start = sample.time_ns - std::min(sample.time_ns, times.start_ns);
  const std::uint64_t ticks = since_start / kTickNs;
  if (ticks >= times.until) return;
  const auto tick = static_cast<std::uint32_t>(ticks);
  try {
    const std::uint64_t room = std::min(times.room_bytes, room_of_session(session));
    const auto taken = process.times.add({process.stacks.last_counted(), tick}, room);
    times.room_bytes -= taken.value_or(0);
    add_bytes(session, taken.value_or(0));
    if (!taken) times.until = tick;
  } catch (const std::exception&) {  // no memory
    times.until = tick;
  }
}

void Aggregator::make_room(SessionSamples& session, ProcessSamples& process,
                           const ProcessKey& key) {
  const std::size_t before = process.jit.entries().size();
  const StackTable& stacks = process.stacks;
  const JitLookup code = naming_ != nullptr ? naming_->lookup(key) : JitLookup();
  const auto end = std::chrono::steady_clock::now() + kMaxFoldTime;
  process.jit.fold_oldest_half([&](std::uint32_t stack, std::uint64_t a, std::uint64_t b) {
    return !code.at || means_the_same(stacks, stacks.stacks()[stack], a, b, code, end);
  });
  discharge(session, process.payer, (before - process.jit.entries().size()) * JitLog::kEntryBytes);
}

void Aggregator::on_mapping(const MappingView& mapping,
                            std::shared_ptr<const MappedFile> file) noexcept {
  if (naming_ != nullptr) naming_->on_mapping(mapping);
  try {
    processes_.add(mapping, std::move(file));
  } catch (const std::exception&) {  // no memory: frames in it stay plain addresses
  }
}

void Aggregator::on_process(const ProcessView& process) noexcept {
  if (naming_ != nullptr) naming_->on_process(process);
  try {
    processes_.add(process);
  } catch (const std::exception&) {  // no memory: the process has no name
  }
}

void Aggregator::on_unmap(const UnmapView& unmap) noexcept {
  if (naming_ != nullptr) naming_->on_unmap(unmap);
}

}  // namespace profd
