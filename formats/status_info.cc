#include "formats/status_info.h"

#include <utility>

#include "formats/json_fields.h"
#include "formats/session_summary_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 12;

json::object ledger_json(const StatusInfo::Ledger& ledger) {
  return {{"taken", ledger.taken},
          {"sent", ledger.sent},
          {"idle", ledger.idle},
          {"filtered", ledger.filtered},
          {"lost", counts_json(ledger.lost)},
          {"difference", ledger.difference()}};
}

json::object tables_json(const StatusInfo::Unwinding::Tables& tables) {
  return {{"count", tables.count},
          {"files", tables.files},
          {"rows", tables.rows},
          {"bytes", tables.bytes},
          {"arena_bytes", tables.arena_bytes},
          {"cap_bytes", tables.cap_bytes},
          {"rules", tables.rules},
          {"evicted", tables.evicted},
          {"loading", tables.loading},
          {"refused", counts_json(tables.refused)}};
}

json::object late_json(const StatusInfo::Unwinding::Late& late) {
  return {{"waiting", late.waiting}, {"done", late.done}, {"given_up", late.given_up}};
}

json::object parsers_json(const StatusInfo::Parsers& parsers) {
  return {{"processes", parsers.processes},
          {"cpu_seconds", parsers.cpu_seconds},
          {"rss_bytes", parsers.rss_bytes}};
}

json::object connections_json(const StatusInfo::Connections& connections) {
  return {{"open", connections.open},
          {"refused", connections.refused},
          {"starved", connections.starved},
          {"slow", connections.slow}};
}

json::object unwinding_json(const StatusInfo::Unwinding& unwinding) {
  json::array worst;
  for (const StatusInfo::Unwinding::Object& object : unwinding.worst) {
    worst.push_back(json::object{
        {"path", object.path}, {"reason", object.reason}, {"samples", object.samples}});
  }
  return {{"user_samples", unwinding.user_samples},
          {"complete_samples", unwinding.complete_samples},
          {"incomplete", counts_json(unwinding.incomplete)},
          {"worst", std::move(worst)},
          {"tables", tables_json(unwinding.tables)},
          {"late", late_json(unwinding.late)},
          {"parser_restarts", unwinding.parser_restarts}};
}

json::object jit_json(const StatusInfo::Jit& jit) {
  return {{"processes", jit.processes},         {"files", jit.files},
          {"functions", jit.functions},         {"bytes", jit.bytes},
          {"bytes_read", jit.bytes_read},       {"events", jit.events},
          {"forgotten", jit.forgotten},         {"refused", counts_json(jit.refused)},
          {"damaged", counts_json(jit.damaged)}};
}

json::object continuous_json(const StatusInfo::Continuous& continuous) {
  return {{"enabled", continuous.enabled},
          {"frequency", continuous.frequency_hz},
          {"window_seconds", continuous.window_seconds},
          {"windows", continuous.windows},
          {"objects", continuous.objects},
          {"disk_bytes", continuous.disk_bytes},
          {"oldest", continuous.oldest},
          {"last_written", continuous.last_written},
          {"waiting", continuous.waiting},
          {"damaged", continuous.damaged},
          {"failed", counts_json(continuous.failed)},
          {"lost_samples", continuous.lost_samples}};
}

}  // namespace

std::int64_t StatusInfo::Ledger::difference() const {
  return static_cast<std::int64_t>(taken - sent - idle - filtered - sum_of(lost));
}

Result<void> read_json(const json::value& value, StatusInfo::Jit& out) {
  return JsonFields(value)
      .required("processes", out.processes)
      .required("files", out.files)
      .required("functions", out.functions)
      .required("bytes", out.bytes)
      .required("bytes_read", out.bytes_read)
      .required("events", out.events)
      .required("forgotten", out.forgotten)
      .required("refused", out.refused)
      .required("damaged", out.damaged)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Ledger& out) {
  return JsonFields(value)
      .required("taken", out.taken)
      .required("sent", out.sent)
      .required("idle", out.idle)
      .required("filtered", out.filtered)
      .required("lost", out.lost)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Unwinding::Object& out) {
  return JsonFields(value)
      .required("path", out.path)
      .required("reason", out.reason)
      .required("samples", out.samples)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Unwinding::Tables& out) {
  return JsonFields(value)
      .required("count", out.count)
      .optional("files", out.files)
      .required("rows", out.rows)
      .required("bytes", out.bytes)
      .optional("arena_bytes", out.arena_bytes)
      .required("cap_bytes", out.cap_bytes)
      .optional("rules", out.rules)
      .optional("evicted", out.evicted)
      .optional("loading", out.loading)
      .required("refused", out.refused)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Unwinding::Late& out) {
  return JsonFields(value)
      .required("waiting", out.waiting)
      .required("done", out.done)
      .required("given_up", out.given_up)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Unwinding& out) {
  return JsonFields(value)
      .required("user_samples", out.user_samples)
      .required("complete_samples", out.complete_samples)
      .required("incomplete", out.incomplete)
      .required("worst", out.worst)
      .required("tables", out.tables)
      .required("late", out.late)
      .optional("parser_restarts", out.parser_restarts)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Parsers& out) {
  return JsonFields(value)
      .required("processes", out.processes)
      .required("cpu_seconds", out.cpu_seconds)
      .required("rss_bytes", out.rss_bytes)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Connections& out) {
  return JsonFields(value)
      .required("open", out.open)
      .required("refused", out.refused)
      .required("starved", out.starved)
      .required("slow", out.slow)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::CpuGaps& out) {
  return JsonFields(value).required("count", out.count).required("seconds", out.seconds).finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Xray& out) {
  return JsonFields(value)
      .required("apps", out.apps)
      .required("apps_refused", out.apps_refused)
      .required("sessions", out.sessions)
      .required("failed", out.failed)
      .optional("ended", out.ended)
      .required("traces", out.traces)
      .required("traces_refused", out.traces_refused)
      .optional("traces_missed", out.traces_missed)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo::Continuous& out) {
  return JsonFields(value)
      .required("enabled", out.enabled)
      .optional("frequency", out.frequency_hz)
      .optional("window_seconds", out.window_seconds)
      .optional("windows", out.windows)
      .optional("objects", out.objects)
      .optional("disk_bytes", out.disk_bytes)
      .optional("oldest", out.oldest)
      .optional("last_written", out.last_written)
      .optional("waiting", out.waiting)
      .optional("damaged", out.damaged)
      .optional("failed", out.failed)
      .optional("lost_samples", out.lost_samples)
      .finish();
}

Result<void> read_json(const json::value& value, StatusInfo& out) {
  return JsonFields(value)
      .required("version", out.version)
      .required("pid", out.pid)
      .required("uptime_seconds", out.uptime_seconds)
      .required("cpu_seconds", out.cpu_seconds)
      .required("rss_bytes", out.rss_bytes)
      .required("sessions", out.sessions)
      .required("ledger", out.ledger)
      .optional("outside_namespace", out.outside_namespace)
      .optional("received", out.received)
      .optional("skipped_estimate", out.skipped_estimate)
      .optional("mapping_records", out.mapping_records)
      .optional("results_bytes", out.results_bytes)
      .optional("parsers", out.parsers)
      .optional("connections", out.connections)
      .optional("cpu_gaps", out.cpu_gaps)
      .optional("unwinding", out.unwinding)
      .optional("jit", out.jit)
      .optional("xray", out.xray)
      .optional("continuous", out.continuous)
      .finish();
}

std::string to_json(const StatusInfo& status) {
  return json_text(json::object{
      {"version", status.version},
      {"pid", status.pid},
      {"uptime_seconds", status.uptime_seconds},
      {"cpu_seconds", status.cpu_seconds},
      {"rss_bytes", status.rss_bytes},
      {"sessions", status.sessions},
      {"ledger", ledger_json(status.ledger)},
      {"outside_namespace", status.outside_namespace},
      {"received", status.received},
      {"skipped_estimate", status.skipped_estimate},
      {"mapping_records", status.mapping_records},
      {"results_bytes", status.results_bytes},
      {"parsers", parsers_json(status.parsers)},
      {"connections", connections_json(status.connections)},
      {"cpu_gaps", {{"count", status.cpu_gaps.count}, {"seconds", status.cpu_gaps.seconds}}},
      {"unwinding", unwinding_json(status.unwinding)},
      {"jit", jit_json(status.jit)},
      {"xray",
       {{"apps", status.xray.apps},
        {"apps_refused", status.xray.apps_refused},
        {"sessions", status.xray.sessions},
        {"failed", status.xray.failed},
        {"ended", counts_json(status.xray.ended)},
        {"traces", status.xray.traces},
        {"traces_refused", status.xray.traces_refused},
        {"traces_missed", status.xray.traces_missed}}},
      {"continuous", continuous_json(status.continuous)}});
}

Result<StatusInfo> parse_status_info(std::string_view text) {
  return parse_as<StatusInfo>(text, kMaxDepth);
}

}  // namespace profd
