#include <iomanip>
#include <ostream>
#include <sstream>

#include "ctl/commands/commands.h"
#include "ctl/output/text.h"

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

void print_unwinding(const StatusInfo::Unwinding& unwinding, std::ostream& out) {
  const StatusInfo::Unwinding::Tables& tables = unwinding.tables;
  out << "stacks     " << percent_text(unwinding.complete_samples, unwinding.user_samples) << " of "
      << unwinding.user_samples << " complete";
  if (!unwinding.incomplete.empty()) out << ", the rest " << counts_text(unwinding.incomplete);
  out << "\n           deferred: " << unwinding.deferred.done << " unwound, "
      << unwinding.deferred.waiting << " waiting, " << unwinding.deferred.abandoned
      << " abandoned\n"
      << "tables     " << tables.count << " for " << tables.files << " files, " << tables.rows
      << " rows, " << bytes_text(tables.bytes) << " of at most " << bytes_text(tables.cap_bytes)
      << "; " << tables.loading << " loading, " << tables.evicted << " evicted\n";
  if (!tables.refused.empty()) out << "no table   " << counts_text(tables.refused) << "\n";
  for (const StatusInfo::Unwinding::Object& object : unwinding.worst) {
    out << "broke off  " << object.samples << " " << printable(object.reason) << " in "
        << printable(object.path) << "\n";
  }
}

std::string number_of(std::uint64_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

void print_xray(const StatusInfo::Xray& xray, std::ostream& out) {
  if (xray == StatusInfo::Xray{}) return;
  out << "xray       " << number_of(xray.apps, "app") << ", " << number_of(xray.sessions, "session")
      << ", " << xray.failed << " failed; " << number_of(xray.traces, "trace") << " taken";
  if (!xray.ended.empty()) out << "; ended early: " << counts_text(xray.ended);
  if (xray.apps_refused != 0) out << "; " << number_of(xray.apps_refused, "app") << " refused";
  if (xray.traces_refused != 0)
    out << "; " << number_of(xray.traces_refused, "trace") << " refused";
  if (xray.traces_missed != 0)
    out << "; looked through again " << number_of(xray.traces_missed, "time");
  out << "\n";
}

void print_jit(const StatusInfo::Jit& jit, std::ostream& out) {
  if (jit.events == 0 && jit.refused.empty()) return;
  out << "jit        " << jit.processes << " processes tell of " << jit.functions
      << " functions, which take " << bytes_text(jit.bytes) << "; " << jit.files << " files held, "
      << bytes_text(jit.bytes_read) << " read";
  if (jit.forgotten != 0) out << "; " << jit.forgotten << " forgotten";
  out << "\n";
  if (!jit.refused.empty()) out << "not read   files: " << counts_text(jit.refused) << "\n";
  if (!jit.malformed.empty()) out << "malformed  records: " << counts_text(jit.malformed) << "\n";
}

void print_unmaps(const StatusInfo::Unmaps& unmaps, std::ostream& out) {
  if (unmaps == StatusInfo::Unmaps{}) return;
  out << "unmapped   " << number_of(unmaps.reported, "time") << " memory with JIT code";
  if (unmaps.lost != 0) out << "; " << unmaps.lost << " lost";
  out << "\n";
}

void print_history(const StatusInfo::Continuous& history, std::ostream& out) {
  if (history.enabled) {
    out << "history    on: " << history.frequency_hz << " Hz, windows of "
        << duration_text(static_cast<double>(history.window_seconds));
  } else {
    out << "history    off";
  }
  out << "; " << history.windows << " windows kept, " << bytes_text(history.disk_bytes)
      << " on disk\n";
  if (!history.oldest.empty()) {
    out << "           oldest " << local_text(history.oldest) << ", last written "
        << local_text(history.last_written) << "\n";
  }
  if (!history.failed.empty()) {
    out << "failed     windows: " << counts_text(history.failed) << "; " << history.lost_samples
        << " samples lost with them\n";
  }
  if (history.malformed != 0) out << "malformed  " << history.malformed << " windows set aside\n";
}

// "36.61 CPU seconds (1.00 %)"
std::string cpu_text(double cpu_seconds, double uptime_seconds) {
  const double share = uptime_seconds > 0 ? 100 * cpu_seconds / uptime_seconds : 0;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << cpu_seconds << " CPU seconds (" << share << " %)";
  return text.str();
}

void print_cost(const StatusInfo& status, std::ostream& out) {
  const StatusInfo::Parsers& parsers = status.parsers;
  out << "cost       " << cpu_text(status.cpu_seconds + parsers.cpu_seconds, status.uptime_seconds)
      << ", " << bytes_text(status.rss_bytes + parsers.rss_bytes) << " resident\n"
      << "           of that " << parsers.processes << " parsers "
      << cpu_text(parsers.cpu_seconds, status.uptime_seconds) << ", "
      << bytes_text(parsers.rss_bytes) << "\n";
}

void print_status(const StatusInfo& status, std::ostream& out) {
  out << "profd      " << printable(status.version) << ", pid " << status.pid << ", up "
      << duration_text(status.uptime_seconds) << "\n";
  print_cost(status, out);
  out << "sessions   " << status.sessions << " running, " << bytes_text(status.results_bytes)
      << " of results held\n";
  print_history(status.continuous, out);
  print_ledger(status, out);
  print_unwinding(status.unwinding, out);
  print_jit(status.jit, out);
  print_unmaps(status.unmaps, out);
  print_xray(status.xray, out);
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
