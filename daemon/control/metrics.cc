#include "daemon/control/metrics.h"

#include <chrono>

#include "formats/api/metrics_text.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

void add_reasons(CountsByReason& counts, const std::vector<std::string_view>& reasons) {
  for (const std::string_view reason : reasons) counts.try_emplace(std::string(reason), 0);
}

void add_process(MetricsText& out, const StatusInfo& status) {
  out.info("profd_build_info", "The version of profd.", "version", status.version);
  out.gauge("profd_uptime_seconds", "Time since profd started.", status.uptime_seconds);
  out.counter("profd_cpu_seconds_total", "CPU time of profd without its child processes.",
              status.cpu_seconds);
  out.gauge("profd_resident_memory_bytes", "Resident memory of profd without its child processes.",
            status.rss_bytes);
  out.gauge("profd_parser_processes",
            "Child processes: parsers, symbolizers, followers, doors and their closer.",
            status.parsers.processes);
  out.counter("profd_parser_cpu_seconds_total", "CPU time of the child processes.",
              status.parsers.cpu_seconds);
  out.gauge("profd_parser_resident_memory_bytes", "Resident memory of the child processes.",
            status.parsers.rss_bytes);
  out.counter("profd_parser_restarts_total", "Parsers that were restarted.",
              status.unwinding.parser_restarts);
}

void add_service(MetricsText& out, const StatusInfo& status) {
  const StatusInfo::Connections& connections = status.connections;
  out.gauge("profd_sessions", "Running sessions.", status.sessions);
  out.gauge("profd_results_bytes", "Size of all results on the disk.", status.results_bytes);
  out.counter("profd_results_refused_total", "Results that would exceed a limit of the disk.",
              status.results_refused);
  out.gauge("profd_connections", "Open connections to the control socket.", connections.open);
  out.counter("profd_connections_refused_total", "Connections refused by a limit.",
              connections.refused);
  out.counter("profd_connections_starved_total",
              "Times that no connection could be accepted: no free descriptor.",
              connections.starved);
  out.counter("profd_connections_slow_total", "Connections closed because the client was too slow.",
              connections.slow);
  out.counter("profd_connections_unread_total",
              "Connections closed because the client left the rest of an answer unread.",
              connections.unread);
  out.counter("profd_doors_replaced_total",
              "Times that the process that serves the public socket died or stood still.",
              connections.doors_replaced);
  out.gauge("profd_doors_stuck", "Killed processes of that kind that have not ended yet.",
            connections.doors_stuck);
}

void add_samples(MetricsText& out, const StatusInfo& status) {
  const StatusInfo::Ledger& ledger = status.ledger;
  out.counter("profd_samples_taken_total", "Samples taken.", ledger.taken);
  out.counter("profd_samples_sent_total", "Samples sent to user space.", ledger.sent);
  out.counter("profd_samples_idle_total", "Samples of an idle CPU, not sent.", ledger.idle);
  out.counter("profd_samples_filtered_total", "Samples of processes outside all targets.",
              ledger.filtered);
  out.counter("profd_samples_lost_total", "Samples taken and lost.", "reason", ledger.lost);
  out.counter("profd_samples_received_total", "Samples received in user space.", status.received);
  out.counter("profd_samples_outside_namespace_total",
              "Filtered samples of processes outside profd's PID namespace.",
              status.outside_namespace);
  out.gauge("profd_samples_skipped_estimate",
            "Estimate of the timer ticks that the kernel skipped.", status.skipped_estimate);
  out.counter("profd_children_not_followed_total",
              "Children of target processes that are not sampled: there were too many targets.",
              status.children_not_followed);
  out.counter("profd_mapping_records_total", "Mapping records received.", status.mapping_records);
  out.counter("profd_mapping_records_lost_total", "Mapping records lost.", "reason",
              status.mapping_records_lost);
  out.counter("profd_process_records_lost_total",
              "Process records that had no room in the rings and were sent later.",
              status.process_records_lost);
  out.counter("profd_unmaps_total", "Unmaps of JIT code received.", status.unmaps.reported);
  out.counter("profd_unmaps_lost_total", "Unmaps of JIT code that were lost.", status.unmaps.lost);
  out.counter("profd_cpu_gaps_total",
              "CPUs that went offline and came back while they were sampled.",
              status.cpu_gaps.count);
  out.counter("profd_cpu_gap_seconds_total", "Time in which these CPUs were not sampled.",
              status.cpu_gaps.seconds);
}

void add_unwinding(MetricsText& out, const StatusInfo::Unwinding& unwinding) {
  const StatusInfo::Unwinding::Tables& tables = unwinding.tables;
  out.counter("profd_user_stacks_total", "User stacks taken.", unwinding.user_samples);
  out.counter("profd_user_stacks_complete_total", "User stacks that reach the entry function.",
              unwinding.complete_samples);
  out.counter("profd_user_stacks_incomplete_total",
              "User stacks that end before the entry function.", "reason", unwinding.incomplete);
  out.gauge("profd_deferred_stacks_waiting", "Deferred stacks that wait for an unwind table.",
            unwinding.deferred.waiting);
  out.counter("profd_deferred_stacks_done_total", "Deferred stacks unwound.",
              unwinding.deferred.done);
  out.counter("profd_deferred_stacks_abandoned_total",
              "Deferred stacks whose unwind table was not there in time.",
              unwinding.deferred.abandoned);
  out.gauge("profd_unwind_tables", "Unwind tables in the kernel.", tables.count);
  out.gauge("profd_unwind_table_files", "Files that have an unwind table.", tables.files);
  out.gauge("profd_unwind_table_rows", "Rows of all unwind tables.", tables.rows);
  out.gauge("profd_unwind_table_rules", "Rules in the dictionary of unwind tables.", tables.rules);
  out.gauge("profd_unwind_table_bytes", "Kernel memory used by unwind tables.", tables.bytes);
  out.gauge("profd_unwind_arena_bytes", "Kernel memory allocated for unwind tables.",
            tables.arena_bytes);
  out.gauge("profd_unwind_arena_limit_bytes", "Limit of the kernel memory for unwind tables.",
            tables.cap_bytes);
  out.gauge("profd_unwind_files_loading", "Files whose unwind table is being made.",
            tables.loading);
  out.counter("profd_unwind_tables_evicted_total", "Unwind tables evicted to make room.",
              tables.evicted);
  out.counter("profd_unwind_files_refused_total", "Files without an unwind table.", "reason",
              tables.refused);
}

void add_jit(MetricsText& out, const StatusInfo::Jit& jit) {
  out.gauge("profd_jit_processes", "Processes with a jitdump or perf map.", jit.processes);
  out.gauge("profd_jit_files", "Open jitdumps and perf maps.", jit.files);
  out.gauge("profd_jit_functions", "Known JIT-compiled functions.", jit.functions);
  out.gauge("profd_jit_bytes", "Memory for JIT-compiled functions.", jit.bytes);
  out.counter("profd_jit_read_bytes_total", "Bytes read of jitdumps and perf maps.",
              jit.bytes_read);
  out.counter("profd_jit_events_total", "Valid records and lines of jitdumps and perf maps.",
              jit.events);
  out.counter("profd_jit_forgotten_total", "JIT-compiled functions dropped to bound the memory.",
              jit.forgotten);
  out.counter("profd_jit_files_refused_total", "Jitdumps and perf maps that are not read.",
              "reason", jit.refused);
  out.counter("profd_jit_malformed_total", "Malformed records and lines of jitdumps and perf maps.",
              "reason", jit.malformed);
}

void add_interpreters(MetricsText& out, const StatusInfo::Interpreters& interpreters) {
  out.gauge("profd_interpreters_supported",
            "1 if the kernel's verifier accepts the programs that read interpreted frames.",
            std::uint64_t{interpreters.supported ? 1U : 0U});
  out.counter("profd_interpreters_total", "Files with an interpreter whose frames are read.",
              interpreters.known);
  out.counter("profd_interpreters_refused_total",
              "Files with an interpreter whose frames are not read.", "reason",
              interpreters.refused);
  out.counter("profd_interpreted_stacks_total", "Stacks that met an interpreter.",
              interpreters.stacks);
  out.counter("profd_interpreted_frames_total", "Frames of interpreted code.", interpreters.frames);
  out.counter("profd_interpreted_lost_total",
              "Interpreted stacks, frames and announcements of code that are not whole.", "reason",
              interpreters.lost);
  out.counter("profd_interpreted_codes_announced_total", "Code objects received.",
              interpreters.announced);
  out.gauge("profd_interpreted_processes", "Processes with known code objects.",
            interpreters.processes);
  out.gauge("profd_interpreted_codes", "Known code objects.", interpreters.codes);
  out.gauge("profd_interpreted_codes_bytes", "Memory for code objects.", interpreters.bytes);
}

void add_names(MetricsText& out, const StatusInfo::Names& names) {
  out.counter("profd_named_samples_total",
              "Samples of written sessions and windows, by where the name of the innermost frame "
              "comes from, or why it has none.",
              "source", names.sources);
  out.counter("profd_fully_named_samples_total",
              "Samples of written sessions and windows with a name for each frame.",
              names.fully_named);
  out.gauge("profd_name_cache_files", "Files whose names are kept.", names.cached_files);
  out.gauge("profd_name_cache_bytes", "Memory for these names.", names.cached_bytes);
  out.counter("profd_name_lookups_total", "Addresses whose names were not in the cache.",
              names.looked_up);
  out.counter("profd_names_read_back_total",
              "Addresses whose names came from the last windows at the start.", names.read_back);
  out.counter("profd_debug_files_total", "Debug files that were used, by place.", "place",
              names.debug_files.found);
  out.counter("profd_debug_files_refused_total", "Debug files that are there and not used.",
              "reason", names.debug_files.refused);
  out.counter("profd_dwarf_addresses_total", "Addresses with functions and lines from DWARF.",
              names.lines.answered);
  out.counter("profd_dwarf_addresses_lost_total", "Addresses whose answer from DWARF is not whole.",
              "reason", names.lines.addresses_lost);
  out.counter("profd_dwarf_files_refused_total", "Files whose DWARF is not read for an hour.",
              "reason", names.lines.files_refused);
  out.counter("profd_symbolizer_cpu_seconds_total", "CPU time of the symbolizers.",
              names.lines.cpu_seconds);
  out.counter("profd_symbolizer_failures_total", "Symbolizers that died or were killed.",
              names.lines.failures);
}

// 0 for a time that is not known, as is usual in Prometheus.
double timestamp_of(const std::string& rfc3339) {
  const auto time = parse_time_text(rfc3339, WallTime{});
  if (!time) return 0;
  return std::chrono::duration<double>(time->time_since_epoch()).count();
}

void add_xray(MetricsText& out, const StatusInfo::Xray& xray) {
  out.gauge("profd_xray_apps", "Connected apps whose calls can be recorded.", xray.apps);
  out.counter("profd_xray_apps_refused_total", "Connections of apps refused.", xray.apps_refused);
  out.counter("profd_xray_doors_replaced_total",
              "Times that the process that holds the connections of apps died or stood still.",
              xray.doors_replaced);
  out.counter("profd_xray_closers_replaced_total",
              "Times that the process that closes such connections died or stood still.",
              xray.closers_replaced);
  out.gauge("profd_xray_doors_stuck",
            "Killed processes of these two kinds that have not ended yet.", xray.doors_stuck);
}

void add_off_cpu(MetricsText& out, const StatusInfo::OffCpu& off_cpu) {
  out.counter("profd_off_cpu_threads_watched_total",
              "Threads whose times off the CPU were measured.", off_cpu.threads_watched);
  out.counter("profd_off_cpu_threads_refused_total",
              "Threads that were not watched for lack of kernel memory.", off_cpu.threads_refused);
  out.counter("profd_off_cpu_walks_total", "Stacks taken of threads that left their CPU.",
              off_cpu.walks);
  out.counter("profd_off_cpu_walks_by_chance_total",
              "Such stacks that stand for several times off the CPU.", off_cpu.walks_by_chance);
  out.gauge("profd_off_cpu_scale", "Scale of the chance that a short time off the CPU is sampled.",
            off_cpu.scale);
  out.counter("profd_off_cpu_ends_lost_total", "Ends of sampled times off the CPU that were lost.",
              off_cpu.ends_lost);
  out.gauge("profd_off_cpu_open_blocks", "Sampled times off the CPU that have not ended.",
            off_cpu.open_blocks);
  out.gauge("profd_off_cpu_open_bytes", "Memory for these.", off_cpu.open_bytes);
}

void add_history(MetricsText& out, const StatusInfo::Continuous& windows) {
  out.gauge("profd_continuous_enabled", "1 if continuous mode is enabled.",
            std::uint64_t{windows.enabled ? 1U : 0U});
  out.gauge("profd_windows", "Windows on the disk.", windows.windows);
  out.gauge("profd_history_hours", "Hour files on the disk.", windows.hours);
  out.gauge("profd_windows_waiting", "Windows that wait to be written.", windows.waiting);
  out.gauge("profd_windows_malformed", "Malformed windows set aside at the start.",
            windows.malformed);
  out.counter("profd_windows_failed_total", "Windows that could not be written or removed.",
              "reason", windows.failed);
  out.counter("profd_window_samples_lost_total", "Samples of windows that could not be written.",
              windows.lost_samples);
  out.counter("profd_window_samples_over_share_total",
              "Samples whose stacks were over their user's share of a window.",
              windows.over_share_samples);
  out.gauge("profd_window_oldest_timestamp_seconds",
            "Start of the oldest window; 0 if there is none.", timestamp_of(windows.oldest));
  out.gauge("profd_window_last_written_timestamp_seconds",
            "End of the last written window; 0 if there is none.",
            timestamp_of(windows.last_written));
  out.gauge("profd_history_bytes", "Size of windows and hour files on the disk.",
            windows.disk_bytes);
}

void add_history_off_cpu(MetricsText& out, const StatusInfo::Continuous& windows) {
  out.gauge("profd_off_cpu_windows", "Windows of times off the CPU on the disk.", windows.windows);
  out.counter("profd_off_cpu_windows_failed_total",
              "Windows of times off the CPU that could not be written or removed.", "reason",
              windows.failed);
  out.gauge("profd_off_cpu_history_bytes",
            "Size of the windows and hour files of times off the CPU on the disk.",
            windows.disk_bytes);
}

}  // namespace

std::string metrics_of(StatusInfo status, const StatusReasons& reasons) {
  add_reasons(status.ledger.lost, reasons.lost);
  add_reasons(status.unwinding.incomplete, reasons.incomplete);
  add_reasons(status.unwinding.tables.refused, reasons.tables_refused);
  add_reasons(status.jit.refused, reasons.jit_refused);
  add_reasons(status.interpreters.lost, reasons.interpreted_lost);
  add_reasons(status.interpreters.refused, reasons.interpreters_refused);
  add_reasons(status.continuous.failed, reasons.windows_failed);
  add_reasons(status.names.sources, reasons.name_sources);
  add_reasons(status.names.debug_files.found, reasons.debug_places);
  add_reasons(status.names.debug_files.refused, reasons.debug_refusals);
  add_reasons(status.names.lines.addresses_lost, reasons.dwarf_losses);
  add_reasons(status.names.lines.files_refused, reasons.dwarf_losses);
  MetricsText out;
  add_process(out, status);
  add_service(out, status);
  add_samples(out, status);
  add_unwinding(out, status.unwinding);
  add_jit(out, status.jit);
  add_interpreters(out, status.interpreters);
  add_names(out, status.names);
  add_xray(out, status.xray);
  add_off_cpu(out, status.off_cpu.value_or(StatusInfo::OffCpu{}));
  add_history(out, status.continuous);
  StatusInfo::Continuous off_cpu = status.continuous_off_cpu.value_or(StatusInfo::Continuous{});
  add_reasons(off_cpu.failed, reasons.windows_failed);
  add_history_off_cpu(out, off_cpu);
  return out.text();
}

}  // namespace profd
