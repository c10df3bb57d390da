#include "daemon/profiles/block_counts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "collectors/bpf/sample.h"
#include "daemon/profiles/microseconds.h"
#include "daemon/samples/stack_table.h"

namespace profd {
namespace {

constexpr std::uint64_t kNsOfSecond = 1'000'000'000;

BlockSummary::Term next_term(const BlockTerm& term, Microseconds& sum) {
  return {.blocks = term.blocks, .us = sum.add(term.ns)};
}

BlockSummary::Term term_of(const BlockTerm& term) {
  Microseconds alone;
  return next_term(term, alone);
}

void add_reason(const char* reason, std::uint64_t blocks, CountsByReason& counts) {
  if (blocks != 0) counts.emplace(reason, blocks);
}

std::uint64_t ns_of_stacks(const SessionSnapshot& snapshot) {
  std::uint64_t sum = 0;
  for (const ProcessSnapshot& process : snapshot.processes) {
    const StackTable& table = process.samples.stacks;
    for (const StackTable::Stack& stack : table.stacks()) sum += table.ns(stack);
  }
  return sum;
}

// Those that are no starts of blocks. Losses of both are counted together, and those of blocks when
// they end.
std::uint64_t lost_ticks(const SlotLedger& ledger, const BlockLedger& blocks, std::size_t reason) {
  const std::uint64_t lost = ledger.lost[reason];
  const std::uint64_t of_blocks = reason < PROFD_LOSS_COUNT ? blocks.lost[reason].blocks : 0;
  return lost - std::min(lost, of_blocks);
}

// In nanoseconds, by Loss.
LossCounts lost_times(const SessionSnapshot& snapshot, const BlockLedger& blocks) {
  const EventSpec& event = snapshot.event;
  const bool has_ticks = event.has_ticks() && event.frequency_hz != 0;
  const std::uint64_t tick_ns = has_ticks ? kNsOfSecond / event.frequency_hz : 0;
  LossCounts lost{};
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    lost[reason] = lost_ticks(snapshot.ledger, blocks, reason) * tick_ns;
    if (reason < PROFD_LOSS_COUNT) lost[reason] += blocks.lost[reason].ns;
  }
  return lost;
}

}  // namespace

BlockSummary summary_of(const BlockLedger& blocks) {
  BlockTerm lost;
  for (const BlockTerm& term : blocks.lost) {
    lost.blocks += term.blocks;
    lost.ns += term.ns;
  }
  BlockSummary summary;
  summary.blocked = term_of(blocks.blocked);
  Microseconds terms;
  summary.sampled = next_term(blocks.sampled, terms);
  summary.long_unsampled = next_term(blocks.long_unsampled, terms);
  summary.short_unsampled = next_term(blocks.short_unsampled, terms);
  summary.lost = next_term(lost, terms);
  summary.by_weight = term_of(blocks.by_weight);
  summary.from_before = term_of(blocks.from_before);
  summary.ongoing = term_of(blocks.ongoing);
  add_reason("no_start", blocks.no_start, summary.incomplete);
  add_reason("no_end", blocks.no_end, summary.incomplete);
  add_reason("no_room", blocks.no_room.blocks, summary.incomplete);
  return summary;
}

// The terms are rounded one after the other, as the profiles were before them.
SessionLedger ledger_of_blocks(const SessionSnapshot& snapshot,
                               const std::vector<ProfileSummary>& profiles) {
  const BlockLedger blocks = snapshot.ledger.blocks.value_or(BlockLedger{});
  LossCounts lost = lost_times(snapshot, blocks);
  const std::uint64_t lost_ns = std::accumulate(lost.begin(), lost.end(), blocks.no_room.ns);
  lost[static_cast<std::size_t>(Loss::kMemoryLimit)] += blocks.no_room.ns + snapshot.refused_ns;
  SessionLedger ledger;
  Microseconds taken;
  ledger.taken = taken.add(blocks.delivered.ns + snapshot.tick_ns + lost_ns);
  for (const ProfileSummary& profile : profiles) ledger.written += profile.samples;
  Microseconds terms;
  (void)terms.add(ns_of_stacks(snapshot));
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    const std::uint64_t us = terms.add(lost[reason]);
    if (us != 0) ledger.lost.emplace(loss_name(static_cast<Loss>(reason)), us);
  }
  return ledger;
}

}  // namespace profd
