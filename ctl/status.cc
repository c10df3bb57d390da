#include <iomanip>
#include <ostream>
#include <sstream>

#include "ctl/commands.h"
#include "ctl/text.h"

namespace profd {
namespace {

void print_ledger(const StatusInfo& status, std::ostream& out) {
  const StatusInfo::Ledger& ledger = status.ledger;
  out << "samples    " << ledger.taken << " taken = " << ledger.sent << " sent + " << ledger.idle
      << " idle + " << ledger.filtered << " filtered + " << sum_of(ledger.lost) << " lost";
  out << (ledger.difference() == 0 ? "" : ", difference " + std::to_string(ledger.difference()));
  out << "\n           " << status.received << " received, " << status.outside_namespace
      << " outside profd's PID namespace, about " << status.skipped_estimate
      << " skipped by the kernel\n";
  for (const auto& [reason, count] : ledger.lost) {
    out << "lost       " << count << " " << printable(reason) << "\n";
  }
}

void print_status(const StatusInfo& status, std::ostream& out) {
  const double share =
      status.uptime_seconds > 0 ? 100 * status.cpu_seconds / status.uptime_seconds : 0;
  std::ostringstream cost;
  cost << std::fixed << std::setprecision(2) << status.cpu_seconds << " CPU seconds (" << share
       << " %), ";
  out << "profd      " << printable(status.version) << ", pid " << status.pid << ", up "
      << duration_text(status.uptime_seconds) << "\n"
      << "cost       " << cost.str() << bytes_text(status.rss_bytes) << " resident\n"
      << "sessions   " << status.sessions << " running, " << bytes_text(status.results_bytes)
      << " of results held\n";
  print_ledger(status, out);
}

}  // namespace

int run_status(Client& client, const Options& options, const Console& console) {
  const auto status = client.status();
  if (!status) return report(console, status.error());
  if (options.json) {
    console.out << to_json(*status) << "\n";
  } else {
    print_status(*status, console.out);
  }
  return kExitOk;
}

}  // namespace profd
