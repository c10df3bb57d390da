#include "daemon/control/status.h"

#include <unistd.h>

#include <utility>

#include "collectors/bpf/loss.h"
#include "daemon/service/process_usage.h"

namespace profd {

namespace {

constexpr std::size_t kWorstObjects = 10;

StatusInfo::Unwinding::Tables describe_tables(const UnwindStats& stats) {
  StatusInfo::Unwinding::Tables tables{.count = stats.tables,
                                       .files = stats.files,
                                       .rows = stats.rows,
                                       .bytes = stats.bytes,
                                       .arena_bytes = stats.arena_bytes,
                                       .cap_bytes = stats.cap_bytes,
                                       .rules = stats.rules,
                                       .evicted = stats.evicted,
                                       .loading = stats.loading,
                                       .refused = {}};
  for (std::size_t reason = 0; reason < kTableRefusalCount; ++reason) {
    if (stats.refused[reason] == 0) continue;
    tables.refused.emplace(name_of(static_cast<TableRefusal>(reason)), stats.refused[reason]);
  }
  return tables;
}

StatusInfo::Unwinding describe_unwinding(const UnwindStats& stats, const UnwindTally& tally,
                                         bool show_objects) {
  StatusInfo::Unwinding unwinding{.user_samples = tally.user_samples(),
                                  .complete_samples = tally.complete_samples(),
                                  .incomplete = tally.incomplete(),
                                  .worst = {},
                                  .tables = describe_tables(stats),
                                  .late = {.waiting = stats.deferred_waiting,
                                           .done = stats.deferred_done,
                                           .given_up = stats.deferred_abandoned},
                                  .parser_restarts = stats.parser_restarts};
  if (!show_objects) return unwinding;
  for (UnwindTally::Object& object : tally.worst(kWorstObjects)) {
    unwinding.worst.push_back({.path = std::move(object.path),
                               .reason = std::move(object.reason),
                               .samples = object.samples});
  }
  return unwinding;
}

StatusInfo::Jit describe_jit(const JitStats& stats) {
  StatusInfo::Jit jit{.processes = stats.processes,
                      .files = stats.files,
                      .functions = stats.functions,
                      .bytes = stats.bytes,
                      .bytes_read = stats.bytes_read,
                      .events = stats.events,
                      .forgotten = stats.forgotten,
                      .refused = {},
                      .damaged = {stats.damaged.begin(), stats.damaged.end()}};
  for (std::size_t reason = 0; reason < kJitRefusalCount; ++reason) {
    if (stats.refused[reason] == 0) continue;
    jit.refused.emplace(name_of(static_cast<JitRefusal>(reason)), stats.refused[reason]);
  }
  return jit;
}

}  // namespace

StatusInfo describe_daemon(const DaemonFacts& facts, const UnwindTally& tally, bool show_objects) {
  const ProcessUsage usage = own_usage();
  const ChildrenUsage children = children_usage();
  const SamplerLedger& ledger = facts.ledger;
  StatusInfo status{.version = PROFD_VERSION,
                    .pid = static_cast<std::uint32_t>(::getpid()),
                    .uptime_seconds = std::chrono::duration<double>(facts.uptime).count(),
                    .cpu_seconds = usage.cpu_seconds,
                    .rss_bytes = usage.rss_bytes,
                    .sessions = facts.running_sessions,
                    .ledger = {.taken = ledger.taken,
                               .sent = ledger.sent,
                               .idle = ledger.idle,
                               .filtered = ledger.filtered,
                               .lost = {}},
                    .outside_namespace = ledger.outside_namespace,
                    .received = ledger.received,
                    .skipped_estimate = ledger.skipped_estimate,
                    .mapping_records = ledger.mapping_records,
                    .unmaps = {.told = ledger.unmap_records, .lost = ledger.unmap_records_lost},
                    .results_bytes = facts.results_bytes,
                    .parsers = {.processes = children.processes,
                                .cpu_seconds = children.cpu_seconds,
                                .rss_bytes = children.rss_bytes},
                    .connections = {},
                    .cpu_gaps = {.count = ledger.cpu_gaps,
                                 .seconds = static_cast<double>(ledger.cpu_gap_ns) * 1e-9},
                    .unwinding = describe_unwinding(facts.unwinding, tally, show_objects),
                    .jit = describe_jit(facts.jit),
                    .xray = facts.xray,
                    .continuous = facts.continuous};
  status.unwinding.parser_restarts += facts.worker_parser_restarts + facts.jit.parser_restarts;
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    if (ledger.lost[reason] == 0) continue;
    status.ledger.lost.emplace(loss_name(static_cast<Loss>(reason)), ledger.lost[reason]);
  }
  return status;
}

}  // namespace profd
