#include "daemon/aggregator.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace profd {
namespace {

// A process image with one stack: its entries in both tables, its names and a few mappings. Without
// it, a storm of short processes would hold far more than its stacks.
constexpr std::uint64_t kProcessBytes = 2048;

ProcessSamples* find_or_add_process(SessionSamples& session, const ProcessKey& key) {
  if (const auto found = session.processes.find(key); found != session.processes.end()) {
    return &found->second;
  }
  if (session.bytes + kProcessBytes > session.limit_bytes) return nullptr;
  ProcessSamples& added = session.processes[key];
  session.bytes += kProcessBytes;
  return &added;
}

// The first sample's, until one has another.
void join_owner(ProcessSamples& process, const SampleView& sample, bool is_first) {
  if (is_first) {
    process.owner = sample.owner;
  } else if (process.owner != sample.owner) {
    process.owner.reset();
  }
}

bool add_sample(SessionSamples& session, const SampleView& sample, std::uint64_t hash) {
  ProcessSamples* process = find_or_add_process(session, sample.process);
  if (process == nullptr) return false;
  const std::uint64_t before = process->stacks.bytes();
  const std::uint64_t room = session.limit_bytes - std::min(session.bytes, session.limit_bytes);
  const bool is_first = process->stacks.stacks().empty();
  if (process->stacks.add(sample, hash, room) == StackTable::Added::kNoRoom) return false;
  join_owner(*process, sample, is_first);
  session.bytes += process->stacks.bytes() - before;
  return true;
}

void count_sample(SessionSamples& session, const SampleView& sample, std::uint64_t hash) noexcept {
  bool added = false;
  try {
    added = add_sample(session, sample, hash);
  } catch (const std::exception&) {  // no memory for another process
  }
  if (!added) {
    ++session.refused;
    return;
  }
  ++session.samples;
  session.period_sum += sample.period;
}

}  // namespace

void Aggregator::open(SessionSlot slot, std::uint64_t limit_bytes) {
  sessions_.at(slot).emplace().limit_bytes = limit_bytes;
}

SessionSamples Aggregator::close(SessionSlot slot) {
  return std::exchange(sessions_.at(slot), std::nullopt).value();
}

const SessionSamples& Aggregator::samples(SessionSlot slot) const {
  return sessions_.at(slot).value();
}

void Aggregator::forget_processes() {
  processes_.forget_unless([this](const ProcessKey& key) {
    return std::ranges::any_of(sessions_, [&key](const std::optional<SessionSamples>& session) {
      return session && session->processes.contains(key);
    });
  });
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

void Aggregator::on_mapping(const MappingView& mapping,
                            std::shared_ptr<const MappedFile> file) noexcept {
  try {
    processes_.add(mapping, std::move(file));
  } catch (const std::exception&) {  // no memory: its frames keep their addresses
  }
}

void Aggregator::on_process(const ProcessView& process) noexcept {
  try {
    processes_.add(process);
  } catch (const std::exception&) {  // no memory: it stays without a name
  }
}

}  // namespace profd
