#include "formats/api/status_info.h"

#include "formats/base/json_members.h"

namespace profd {

std::int64_t StatusInfo::Ledger::difference() const {
  return static_cast<std::int64_t>(taken - sent - idle - filtered - sum_of(lost));
}

void members(auto& fields, Is<StatusInfo::Ledger> auto& ledger) {
  fields.required("taken", ledger.taken)
      .required("sent", ledger.sent)
      .required("idle", ledger.idle)
      .required("filtered", ledger.filtered)
      .required("lost", ledger.lost)
      .derived("difference", ledger.difference());
}

void members(auto& fields, Is<StatusInfo::Parsers> auto& parsers) {
  fields.required("processes", parsers.processes)
      .required("cpu_seconds", parsers.cpu_seconds)
      .required("rss_bytes", parsers.rss_bytes);
}

void members(auto& fields, Is<StatusInfo::Connections> auto& connections) {
  fields.required("open", connections.open)
      .required("refused", connections.refused)
      .required("starved", connections.starved)
      .required("slow", connections.slow)
      .required("unread", connections.unread)
      .required("doors_replaced", connections.doors_replaced)
      .required("doors_stuck", connections.doors_stuck);
}

void members(auto& fields, Is<StatusInfo::CpuGaps> auto& gaps) {
  fields.required("count", gaps.count).required("seconds", gaps.seconds);
}

void members(auto& fields, Is<StatusInfo::Unmaps> auto& unmaps) {
  fields.required("reported", unmaps.reported).required("lost", unmaps.lost);
}

void members(auto& fields, Is<StatusInfo::Unwinding::Object> auto& object) {
  fields.required("path", object.path)
      .required("reason", object.reason)
      .required("samples", object.samples);
}

void members(auto& fields, Is<StatusInfo::Unwinding::Tables> auto& tables) {
  fields.required("count", tables.count)
      .optional("files", tables.files)
      .required("rows", tables.rows)
      .required("bytes", tables.bytes)
      .optional("arena_bytes", tables.arena_bytes)
      .required("cap_bytes", tables.cap_bytes)
      .optional("rules", tables.rules)
      .optional("evicted", tables.evicted)
      .optional("loading", tables.loading)
      .required("refused", tables.refused);
}

void members(auto& fields, Is<StatusInfo::Unwinding::Deferred> auto& deferred) {
  fields.required("waiting", deferred.waiting)
      .required("done", deferred.done)
      .required("abandoned", deferred.abandoned);
}

void members(auto& fields, Is<StatusInfo::Unwinding> auto& unwinding) {
  fields.required("user_samples", unwinding.user_samples)
      .required("complete_samples", unwinding.complete_samples)
      .required("incomplete", unwinding.incomplete)
      .required("worst", unwinding.worst)
      .required("tables", unwinding.tables)
      .required("deferred", unwinding.deferred)
      .optional("parser_restarts", unwinding.parser_restarts);
}

void members(auto& fields, Is<StatusInfo::Jit> auto& jit) {
  fields.required("processes", jit.processes)
      .required("files", jit.files)
      .required("functions", jit.functions)
      .required("bytes", jit.bytes)
      .required("bytes_read", jit.bytes_read)
      .required("events", jit.events)
      .required("forgotten", jit.forgotten)
      .required("refused", jit.refused)
      .required("malformed", jit.malformed);
}

void members(auto& fields, Is<StatusInfo::Interpreters::File> auto& file) {
  fields.required("path", file.path)
      .required("runtime", file.runtime)
      .required("verdict", file.verdict);
}

void members(auto& fields, Is<StatusInfo::Interpreters> auto& interpreters) {
  fields.required("supported", interpreters.supported)
      .required("known", interpreters.known)
      .required("stacks", interpreters.stacks)
      .required("frames", interpreters.frames)
      .required("processes", interpreters.processes)
      .required("codes", interpreters.codes)
      .required("bytes", interpreters.bytes)
      .required("announced", interpreters.announced)
      .required("lost", interpreters.lost)
      .required("refused", interpreters.refused)
      .if_set("files", interpreters.files);
}

void members(auto& fields, Is<StatusInfo::Names::Lines> auto& lines) {
  fields.required("answered", lines.answered)
      .required("addresses_lost", lines.addresses_lost)
      .required("files_refused", lines.files_refused)
      .required("cpu_seconds", lines.cpu_seconds)
      .required("failures", lines.failures);
}

void members(auto& fields, Is<StatusInfo::Names::DebugFiles> auto& files) {
  fields.required("found", files.found).required("refused", files.refused);
}

void members(auto& fields, Is<StatusInfo::Names> auto& names) {
  fields.required("samples", names.samples)
      .required("fully_named", names.fully_named)
      .required("sources", names.sources)
      .required("cached_files", names.cached_files)
      .required("cached_bytes", names.cached_bytes)
      .required("looked_up", names.looked_up)
      .required("read_back", names.read_back)
      .required("debug_files", names.debug_files)
      .required("lines", names.lines);
}

void members(auto& fields, Is<StatusInfo::Xray> auto& xray) {
  fields.required("apps", xray.apps)
      .required("apps_refused", xray.apps_refused)
      .required("doors_replaced", xray.doors_replaced)
      .required("closers_replaced", xray.closers_replaced)
      .required("doors_stuck", xray.doors_stuck)
      .required("sessions", xray.sessions)
      .required("failed", xray.failed)
      .optional("ended", xray.ended)
      .required("traces", xray.traces)
      .required("traces_refused", xray.traces_refused)
      .optional("traces_missed", xray.traces_missed);
}

void members(auto& fields, Is<StatusInfo::Continuous> auto& continuous) {
  fields.required("enabled", continuous.enabled)
      .optional("frequency", continuous.frequency_hz)
      .optional("window_seconds", continuous.window_seconds)
      .optional("windows", continuous.windows)
      .optional("hours", continuous.hours)
      .optional("disk_bytes", continuous.disk_bytes)
      .optional("oldest", continuous.oldest)
      .optional("last_written", continuous.last_written)
      .optional("waiting", continuous.waiting)
      .optional("malformed", continuous.malformed)
      .optional("failed", continuous.failed)
      .optional("lost_samples", continuous.lost_samples)
      .optional("over_share_samples", continuous.over_share_samples);
}

void members(auto& fields, Is<StatusInfo::OffCpu> auto& off_cpu) {
  fields.required("threads_watched", off_cpu.threads_watched)
      .required("threads_refused", off_cpu.threads_refused)
      .required("walks", off_cpu.walks)
      .required("walks_by_chance", off_cpu.walks_by_chance)
      .required("scale", off_cpu.scale)
      .required("ends_lost", off_cpu.ends_lost)
      .required("open_blocks", off_cpu.open_blocks)
      .required("open_bytes", off_cpu.open_bytes);
}

void members(auto& fields, Is<StatusInfo::User> auto& user) {
  fields.optional("uid", user.uid).required("refused", user.refused);
}

void members(auto& fields, Is<StatusInfo> auto& status) {
  fields.required("version", status.version)
      .required("pid", status.pid)
      .required("uptime_seconds", status.uptime_seconds)
      .required("cpu_seconds", status.cpu_seconds)
      .required("rss_bytes", status.rss_bytes)
      .required("sessions", status.sessions)
      .required("ledger", status.ledger)
      .optional("outside_namespace", status.outside_namespace)
      .optional("received", status.received)
      .optional("skipped_estimate", status.skipped_estimate)
      .optional("children_not_followed", status.children_not_followed)
      .optional("mapping_records", status.mapping_records)
      .optional("mapping_records_lost", status.mapping_records_lost)
      .optional("process_records_lost", status.process_records_lost)
      .optional("unmaps", status.unmaps)
      .optional("results_bytes", status.results_bytes)
      .optional("results_refused", status.results_refused)
      .optional("parsers", status.parsers)
      .optional("connections", status.connections)
      .optional("cpu_gaps", status.cpu_gaps)
      .optional("unwinding", status.unwinding)
      .optional("jit", status.jit)
      .optional("interpreters", status.interpreters)
      .optional("names", status.names)
      .optional("xray", status.xray)
      .optional("continuous", status.continuous)
      .if_set("continuous_off_cpu", status.continuous_off_cpu)
      .if_set("off_cpu", status.off_cpu)
      .if_set("users", status.users);
}

std::string to_json(const StatusInfo& status) { return json_text(json_of(status)); }

Result<StatusInfo> parse_status_info(std::string_view text) { return parse_as<StatusInfo>(text); }

}  // namespace profd
