#include "daemon/control/status.h"

#include <unistd.h>

#include <array>

#include "collectors/bpf/loss.h"
#include "daemon/samples/stack_table.h"
#include "daemon/service/process_usage.h"

namespace profd {
namespace {

constexpr std::size_t kWorstObjects = 10;

// Without the reasons that never occurred.
template <class Reason, std::size_t kCount>
CountsByReason named(const std::array<std::uint64_t, kCount>& counts,
                     std::string_view (*name)(Reason)) {
  CountsByReason named;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (counts[i] != 0) named.emplace(name(static_cast<Reason>(i)), counts[i]);
  }
  return named;
}

}  // namespace

StatusInfo describe_process() {
  const ProcessUsage usage = own_usage();
  StatusInfo status;
  status.version = PROFD_VERSION;
  status.pid = static_cast<std::uint32_t>(::getpid());
  status.cpu_seconds = usage.cpu_seconds;
  status.rss_bytes = usage.rss_bytes;
  status.parsers = children_usage();
  return status;
}

void add_ledger(const SamplerLedger& ledger, StatusInfo& status) {
  status.ledger = {.taken = ledger.taken,
                   .sent = ledger.sent,
                   .idle = ledger.idle,
                   .filtered = ledger.filtered,
                   .lost = named(ledger.lost, loss_name)};
  status.outside_namespace = ledger.outside_namespace;
  status.received = ledger.received;
  status.skipped_estimate = ledger.skipped_estimate;
  status.mapping_records = ledger.mapping_records;
  status.unmaps = {.reported = ledger.unmap_records, .lost = ledger.unmap_records_lost};
  status.cpu_gaps = {.count = ledger.cpu_gaps,
                     .seconds = static_cast<double>(ledger.cpu_gap_ns) * 1e-9};
}

StatusInfo::Unwinding describe_unwinding(const UnwindStats& stats, const UnwindTally& tally,
                                         bool show_objects) {
  return {.user_samples = tally.user_samples(),
          .complete_samples = tally.complete_samples(),
          .incomplete = tally.incomplete(),
          .worst = show_objects ? tally.worst(kWorstObjects)
                                : std::vector<StatusInfo::Unwinding::Object>(),
          .tables = {.count = stats.tables,
                     .files = stats.files,
                     .rows = stats.rows,
                     .bytes = stats.bytes,
                     .arena_bytes = stats.arena_bytes,
                     .cap_bytes = stats.cap_bytes,
                     .rules = stats.rules,
                     .evicted = stats.evicted,
                     .loading = stats.loading,
                     .refused = named<TableRefusal>(stats.refused, name_of)},
          .deferred = {.waiting = stats.deferred_waiting,
                       .done = stats.deferred_done,
                       .abandoned = stats.deferred_abandoned},
          .parser_restarts = stats.parser_restarts};
}

StatusInfo::Jit describe_jit(const JitStats& stats) {
  return {.processes = stats.processes,
          .files = stats.files,
          .functions = stats.functions,
          .bytes = stats.bytes,
          .bytes_read = stats.bytes_read,
          .events = stats.events,
          .forgotten = stats.forgotten,
          .refused = named<JitRefusal>(stats.refused, name_of),
          .malformed = {stats.malformed.begin(), stats.malformed.end()}};
}

std::vector<std::string_view> incomplete_reasons() {
  std::vector<std::string_view> reasons = {incomplete_reason(StackClass::kCompat, 0)};
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    // A deferred stack gets its end before it is counted.
    if (reached_root(end) || end == PROFD_END_DEFERRED) continue;
    reasons.push_back(incomplete_reason(StackClass::kUser, end));
  }
  return reasons;
}

}  // namespace profd
