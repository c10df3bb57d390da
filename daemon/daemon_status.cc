#include "daemon/daemon_status.h"

#include <unistd.h>

#include "collectors/sampling/loss.h"
#include "daemon/process_usage.h"

namespace profd {

StatusInfo describe_daemon(const DaemonFacts& facts) {
  const ProcessUsage usage = own_usage();
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
                    .results_bytes = facts.results_bytes};
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    if (ledger.lost[reason] == 0) continue;
    status.ledger.lost.emplace(loss_name(static_cast<Loss>(reason)), ledger.lost[reason]);
  }
  return status;
}

}  // namespace profd
