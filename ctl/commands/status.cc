#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "ctl/commands/ship_reports.h"
#include "ctl/commands/subcommand.h"
#include "ctl/output/text.h"
#include "ctl/ship/ship_status.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"
#include "formats/proc/passwd.h"
#include "formats/symbols/code_names.h"

namespace profd {
namespace {

constexpr std::size_t kMaxPathBytes = 120;  // of a path on a line, which may be of any length

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// "36.61 CPU seconds (1.00 %), 10.0 MiB"
std::string cost_text(double cpu_seconds, std::uint64_t rss_bytes, double uptime_seconds) {
  const double percent = uptime_seconds > 0 ? 100 * cpu_seconds / uptime_seconds : 0;
  return decimal_text(cpu_seconds, 2) + " CPU seconds (" + decimal_text(percent, 2) + " %), " +
         bytes_text(rss_bytes);
}

void print_cost(const StatusInfo& status, std::ostream& out) {
  const StatusInfo::Parsers& parsers = status.parsers;
  const double uptime = status.uptime_seconds;
  out << "cost       "
      << cost_text(status.cpu_seconds + parsers.cpu_seconds, status.rss_bytes + parsers.rss_bytes,
                   uptime)
      << " resident\n           of that " << parsers.processes << " parsers "
      << cost_text(parsers.cpu_seconds, parsers.rss_bytes, uptime) << "\n";
}

void print_history(const StatusInfo::Continuous& history, std::ostream& out) {
  out << "history    ";
  if (history.enabled) {
    out << "on: " << history.frequency_hz << " Hz, windows of "
        << duration_text(static_cast<double>(history.window_seconds));
  } else {
    out << "off";
  }
  out << "; " << counted(history.windows, "window") << " and "
      << counted(history.hours, "hour file") << " kept, " << bytes_text(history.disk_bytes)
      << " on disk\n";
  if (!history.oldest.empty()) {
    out << "           oldest " << local_text(history.oldest) << ", last written "
        << local_text(history.last_written) << "\n";
  }
  if (!history.failed.empty()) {
    out << "failed     windows: " << counts_text(history.failed) << "; " << history.lost_samples
        << " samples lost with them\n";
  }
  if (history.over_share_samples != 0) {
    out << "over share " << counted(history.over_share_samples, "sample")
        << " of users whose stacks fill their part of a window\n";
  }
  if (history.malformed != 0) {
    out << "malformed  " << counted(history.malformed, "window") << ", moved aside\n";
  }
}

// Windows of what threads waited for.
void print_history_off_cpu(const StatusInfo::Continuous& history, std::ostream& out) {
  out << "           off-CPU: " << (history.enabled ? "on; " : "off; ")
      << counted(history.windows, "window") << " and " << counted(history.hours, "hour file")
      << " kept, " << bytes_text(history.disk_bytes) << " on disk\n";
  if (!history.failed.empty()) {
    out << "failed     windows off the CPU: " << counts_text(history.failed) << "\n";
  }
}

void print_ledger(const StatusInfo& status, std::ostream& out) {
  const StatusInfo::Ledger& ledger = status.ledger;
  out << "samples    " << ledger.taken << " taken = " << ledger.sent << " sent + " << ledger.idle
      << " idle + " << ledger.filtered << " filtered + " << sum_of(ledger.lost) << " lost";
  if (ledger.difference() != 0) out << ", difference " << ledger.difference();
  out << "\n           " << status.received << " received, " << status.outside_namespace
      << " outside profd's PID namespace; " << counted(status.skipped_estimate, "timer tick")
      << " missed (mostly idle)\n";
  for (const auto& [reason, count] : ledger.lost) {
    out << "lost       " << count << " " << printable(reason) << "\n";
  }
}

// Why files have no unwind table. A file that disappeared before it could be read is no problem:
// its process has ended too.
std::string refused_text(CountsByReason refused) {
  const auto vanished = refused.extract("vanished");
  std::string text = counts_text(refused);
  if (vanished.empty()) return text;
  return std::to_string(vanished.mapped()) + " short-lived files (harmless)" +
         (text.empty() ? "" : ", ") + text;
}

std::string complete_text(const StatusInfo::Unwinding& unwinding) {
  if (unwinding.user_samples == 0) return "no stacks yet";
  return decimal_text(percent_of(unwinding.complete_samples, unwinding.user_samples), 2) +
         " % of " + std::to_string(unwinding.user_samples) + " complete";
}

void print_unwinding(const StatusInfo::Unwinding& unwinding, std::ostream& out) {
  const StatusInfo::Unwinding::Tables& tables = unwinding.tables;
  out << "stacks     " << complete_text(unwinding);
  if (!unwinding.incomplete.empty()) out << ", the rest " << counts_text(unwinding.incomplete);
  out << "\n           deferred: " << unwinding.deferred.done << " unwound, "
      << unwinding.deferred.waiting << " waiting, " << unwinding.deferred.abandoned
      << " abandoned\n"
      << "tables     " << tables.count << " for " << tables.files << " files, " << tables.rows
      << " rows, " << bytes_text(tables.bytes) << " of at most " << bytes_text(tables.cap_bytes)
      << "; " << tables.loading << " loading, " << tables.evicted << " evicted\n";
  if (!tables.refused.empty()) out << "no table   " << refused_text(tables.refused) << "\n";
  for (const StatusInfo::Unwinding::Object& object : unwinding.worst) {
    out << "incomplete " << object.samples << " " << printable(object.reason) << " in "
        << printable_utf8(object.path, kMaxPathBytes) << "\n";
  }
}

// Samples whose innermost frame has a name.
std::uint64_t named_of(const CountsByReason& sources) {
  std::uint64_t named = 0;
  for (std::size_t i = 0; i < kNameSources; ++i) {
    const auto source = static_cast<NameSource>(i);
    const auto counted = sources.find(std::string(text_of(source)));
    if (has_name(source) && counted != sources.end()) named += counted->second;
  }
  return named;
}

// How many samples have names, by where those come from, and what lines cost.
void print_names(const StatusInfo::Names& names, std::ostream& out) {
  if (names == StatusInfo::Names{}) return;
  out << "names      ";
  if (names.samples == 0) {
    out << "no samples yet";
  } else {
    out << decimal_text(percent_of(named_of(names.sources), names.samples), 2) << " % of "
        << names.samples << " samples have one for the innermost frame, "
        << decimal_text(percent_of(names.fully_named, names.samples), 2) << " % for every frame";
  }
  if (!names.sources.empty()) out << "; innermost: " << counts_text(names.sources);
  out << "\n           " << counted(names.cached_files, "file") << ", "
      << bytes_text(names.cached_bytes) << " cached; lines of " << names.lines.answered
      << " addresses read in " << decimal_text(names.lines.cpu_seconds, 2) << " CPU seconds\n";
  if (!names.lines.addresses_lost.empty()) {
    out << "no lines   addresses: " << counts_text(names.lines.addresses_lost) << "\n";
  }
  if (!names.debug_files.refused.empty()) {
    out << "refused    debug files: " << counts_text(names.debug_files.refused) << "\n";
  }
  if (!names.lines.files_refused.empty()) {
    out << "no lines   files: " << counts_text(names.lines.files_refused) << "\n";
  }
}

void print_jit(const StatusInfo::Jit& jit, std::ostream& out) {
  if (jit.events == 0 && jit.refused.empty()) return;
  out << "jit        " << jit.functions << " functions known in " << jit.processes << " processes, "
      << bytes_text(jit.bytes) << " of memory; " << jit.files << " files open, "
      << bytes_text(jit.bytes_read) << " read";
  if (jit.forgotten != 0) out << "; " << jit.forgotten << " functions dropped to save memory";
  out << "\n";
  if (!jit.refused.empty()) out << "not read   files: " << counts_text(jit.refused) << "\n";
  if (!jit.malformed.empty()) out << "malformed  records: " << counts_text(jit.malformed) << "\n";
}

void print_interpreters(const StatusInfo::Interpreters& interpreters, std::ostream& out) {
  if (interpreters == StatusInfo::Interpreters{}) return;
  if (!interpreters.supported) {
    out << "runtimes   no frames of interpreted code: this kernel's verifier refuses the programs "
           "that read them\n";
    return;
  }
  out << "runtimes   " << counted(interpreters.known, "interpreter") << ", "
      << counted(interpreters.stacks, "stack") << " with " << counted(interpreters.frames, "frame")
      << " of their code; " << counted(interpreters.codes, "code object") << " known in "
      << interpreters.processes << " processes, " << bytes_text(interpreters.bytes)
      << " of memory\n";
  if (!interpreters.lost.empty()) {
    out << "           not whole: " << counts_text(interpreters.lost) << "\n";
  }
  if (!interpreters.refused.empty()) {
    out << "not read   interpreters: " << counts_text(interpreters.refused) << "\n";
  }
  for (const StatusInfo::Interpreters::File& file : interpreters.files) {
    out << "           " << printable(file.runtime) << " in "
        << printable_utf8(file.path, kMaxPathBytes);
    if (file.verdict != "known") out << ": " << printable(file.verdict);
    out << "\n";
  }
}

void print_unmaps(const StatusInfo::Unmaps& unmaps, std::ostream& out) {
  if (unmaps == StatusInfo::Unmaps{}) return;
  out << "unmapped   " << counted(unmaps.reported, "region") << " of JIT code";
  if (unmaps.lost != 0) out << "; " << unmaps.lost << " not reported";
  out << "\n";
}

void print_off_cpu(const StatusInfo::OffCpu& off_cpu, std::ostream& out) {
  out << "off-cpu    " << counted(off_cpu.threads_watched, "thread") << " watched, "
      << counted(off_cpu.walks, "stack") << " taken, " << off_cpu.walks_by_chance << " by chance; "
      << off_cpu.open_blocks << " open";
  if (off_cpu.threads_refused != 0) out << "; " << off_cpu.threads_refused << " not watched";
  if (off_cpu.ends_lost != 0) out << "; " << counted(off_cpu.ends_lost, "end") << " lost";
  out << "\n";
}

void print_xray(const StatusInfo::Xray& xray, std::ostream& out) {
  if (xray == StatusInfo::Xray{}) return;
  out << "xray       " << counted(xray.apps, "app") << ", " << counted(xray.sessions, "session")
      << ", " << xray.failed << " failed; " << counted(xray.traces, "trace") << " stored";
  if (!xray.ended.empty()) out << "; ended early: " << counts_text(xray.ended);
  if (xray.apps_refused != 0) out << "; " << counted(xray.apps_refused, "app") << " refused";
  if (xray.traces_refused != 0) out << "; " << counted(xray.traces_refused, "trace") << " refused";
  if (xray.traces_missed != 0) {
    out << "; directory too full or too busy " << counted(xray.traces_missed, "time");
  }
  out << "\n";
}

using UserNames = std::map<std::uint32_t, std::string>;

// From /etc/passwd alone, as the daemon's labels: other sources of names may ask a network, and
// wait for it.
UserNames user_names() {
  const auto text = read_whole_file("/etc/passwd");
  return text ? parse_user_names(*text) : UserNames();
}

std::string user_text(const StatusInfo::User& user, const UserNames& names) {
  if (!user.uid) return "others";
  const auto known = names.find(*user.uid);
  return known == names.end() ? std::to_string(*user.uid) : known->second;
}

void print_users(const std::vector<StatusInfo::User>& users, std::ostream& out) {
  if (users.empty()) return;
  const UserNames names = user_names();
  TableRows rows{{"USER", "WHAT", "TIMES"}};
  for (const StatusInfo::User& user : users) {
    for (const auto& [reason, times] : user.refused) {
      rows.push_back({user_text(user, names), reason, std::to_string(times)});
    }
  }
  out << "\nrefused or dropped:\n";
  print_table(std::move(rows), out);
}

void print_status(const StatusInfo& status, std::ostream& out) {
  out << "profd      " << printable(status.version) << ", pid " << status.pid << ", up "
      << duration_text(status.uptime_seconds) << "\n";
  print_cost(status, out);
  out << "sessions   " << status.sessions << " running, " << bytes_text(status.results_bytes)
      << " of results held\n";
  print_history(status.continuous, out);
  if (status.continuous_off_cpu) print_history_off_cpu(*status.continuous_off_cpu, out);
  print_ledger(status, out);
  print_unwinding(status.unwinding, out);
  print_names(status.names, out);
  print_jit(status.jit, out);
  print_interpreters(status.interpreters, out);
  if (status.children_not_followed != 0) {
    out << "targets    " << status.children_not_followed
        << " forked children not sampled: there were too many target processes\n";
  }
  if (!status.mapping_records_lost.empty()) {
    out << "mappings   not sent: " << counts_text(status.mapping_records_lost) << "\n";
  }
  if (status.process_records_lost != 0) {
    out << "processes  " << status.process_records_lost
        << " records sent later, for lack of room in the rings\n";
  }
  print_unmaps(status.unmaps, out);
  if (status.off_cpu) print_off_cpu(*status.off_cpu, out);
  print_xray(status.xray, out);
}

class Status final : public Subcommand {
 public:
  Status(std::string name, std::string help) : Subcommand(std::move(name), std::move(help)) {}

  void add_options(OptionList& list) override {
    list.option("--runtime-dir", "DIR",
                "Where profctl ship writes what is shown of it [" +
                    std::string(kShipRuntimeDirectory) + "]",
                Reader::path(ship_directory_));
  }

  Result<int> run(Client& client, const Console& console) override {
    const auto status = client.status();
    if (!status) return status.error();
    const ShipTime now = std::chrono::system_clock::now();
    const auto ship = read_ship_status(ship_directory_, now);
    if (console.json) {
      console.out << (ship ? status_json(*status, *ship, now) : to_json(*status)) << "\n";
      return kExitOk;
    }
    print_status(*status, console.out);
    if (ship) print_ship_status(*ship, now, console.out);
    print_users(status->users, console.out);
    return kExitOk;
  }

 private:
  std::string ship_directory_ = kShipRuntimeDirectory;
};

}  // namespace

std::unique_ptr<Subcommand> make_status() {
  return std::make_unique<Status>("status", "Show what profd does and what it costs");
}

}  // namespace profd
