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
      << " outside profd's PID namespace; about " << status.skipped_estimate
      << " ticks did not come, most from idle CPUs\n";
  for (const auto& [reason, count] : ledger.lost) {
    out << "lost       " << count << " " << printable(reason) << "\n";
  }
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  std::ostringstream text;
  const double share =
      whole == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  text << std::fixed << std::setprecision(2) << share << " %";
  return text.str();
}

// "5 no_row, 2 window"
std::string counts_text(const CountsByReason& counts) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    text.append(text.empty() ? "" : ", ").append(std::to_string(count) + " " + printable(reason));
  }
  return text;
}

void print_unwinding(const StatusInfo::Unwinding& unwinding, std::ostream& out) {
  const StatusInfo::Unwinding::Tables& tables = unwinding.tables;
  out << "stacks     " << percent_text(unwinding.complete_samples, unwinding.user_samples) << " of "
      << unwinding.user_samples << " complete";
  if (!unwinding.incomplete.empty()) out << ", the rest " << counts_text(unwinding.incomplete);
  out << "\n           " << unwinding.late.done << " unwound late, " << unwinding.late.waiting
      << " waiting, " << unwinding.late.given_up << " given up\n"
      << "tables     " << tables.count << " for " << tables.files << " files, " << tables.rows
      << " rows, " << bytes_text(tables.bytes) << " of at most " << bytes_text(tables.cap_bytes)
      << "; " << tables.loading << " loading, " << tables.evicted << " evicted\n";
  if (!tables.refused.empty()) out << "no table   " << counts_text(tables.refused) << "\n";
  for (const StatusInfo::Unwinding::Object& object : unwinding.worst) {
    out << "broke off  " << object.samples << " " << printable(object.reason) << " in "
        << printable(object.path) << "\n";
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
  print_unwinding(status.unwinding, out);
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
