#include "formats/status_info.h"

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

}  // namespace

std::int64_t StatusInfo::Ledger::difference() const {
  return static_cast<std::int64_t>(taken - sent - idle - filtered - sum_of(lost));
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
      .finish();
}

std::string to_json(const StatusInfo& status) {
  return json_text(json::object{{"version", status.version},
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
                                {"results_bytes", status.results_bytes}});
}

Result<StatusInfo> parse_status_info(std::string_view text) {
  return parse_as<StatusInfo>(text, kMaxDepth);
}

}  // namespace profd
