#include "formats/session_summary.h"

#include <numeric>

#include "formats/json_fields.h"
#include "formats/session_summary_json.h"

namespace profd {
namespace {

namespace json = boost::json;

// session > profiles > one > incomplete
constexpr std::size_t kMaxDepth = 8;

json::value optional_text(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value(nullptr);
}

json::object profile_json(const ProfileSummary& profile) {
  return {{"pid", profile.pid},
          {"start_time_ns", profile.start_time_ns},
          {"comm", profile.comm},
          {"path", profile.path},
          {"samples", profile.samples},
          {"stacks", profile.stacks},
          {"user_samples", profile.user_samples},
          {"complete_samples", profile.complete_samples},
          {"kernel_only_samples", profile.kernel_only_samples},
          {"incomplete", counts_json(profile.incomplete)},
          {"unit", optional_text(profile.unit)},
          {"container", optional_text(profile.container)},
          {"jit", profile.jit ? json::value(jit_names_json(*profile.jit)) : json::value(nullptr)}};
}

json::object ledger_json(const SessionLedger& ledger) {
  return {{"taken", ledger.taken},
          {"written", ledger.written},
          {"lost", counts_json(ledger.lost)},
          {"difference", ledger.difference()}};
}

}  // namespace

std::uint64_t sum_of(const CountsByReason& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& count) { return sum + count.second; });
}

std::string text_of(const CountsByReason& counts) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    text.append(text.empty() ? "" : ", ").append(std::to_string(count) + " " + reason);
  }
  return text;
}

std::int64_t SessionLedger::difference() const {
  return static_cast<std::int64_t>(taken - written - sum_of(lost));
}

json::object counts_json(const CountsByReason& counts) {
  json::object object;
  for (const auto& [reason, count] : counts) object.emplace(reason, count);
  return object;
}

json::object summary_json(const SessionSummary& summary) {
  json::array profiles;
  for (const ProfileSummary& profile : summary.profiles) profiles.push_back(profile_json(profile));
  json::object object = {
      {"session", summary.session},      {"started", summary.started},
      {"seconds", summary.seconds},      {"event", summary.event},
      {"period_us", summary.period_us},  {"period_unit", summary.period_unit},
      {"profiles", std::move(profiles)}, {"ledger", ledger_json(summary.ledger)}};
  if (summary.xray) object["xray"] = counts_json(*summary.xray);
  return object;
}

Result<void> read_json(const json::value& value, SessionLedger& out) {
  return JsonFields(value)
      .required("taken", out.taken)
      .required("written", out.written)
      .required("lost", out.lost)
      .finish();
}

Result<void> read_json(const json::value& value, ProfileSummary& out) {
  return JsonFields(value)
      .required("pid", out.pid)
      .required("start_time_ns", out.start_time_ns)
      .required("comm", out.comm)
      .required("path", out.path)
      .required("samples", out.samples)
      .required("stacks", out.stacks)
      .required("user_samples", out.user_samples)
      .required("complete_samples", out.complete_samples)
      .required("kernel_only_samples", out.kernel_only_samples)
      .required("incomplete", out.incomplete)
      .optional("unit", out.unit)
      .optional("container", out.container)
      .optional("jit", out.jit)
      .finish();
}

Result<void> read_json(const json::value& value, SessionSummary& out) {
  return JsonFields(value)
      .required("session", out.session)
      .required("started", out.started)
      .required("seconds", out.seconds)
      .required("event", out.event)
      .required("period_us", out.period_us)
      .optional("period_unit", out.period_unit)
      .required("profiles", out.profiles)
      .required("ledger", out.ledger)
      .optional("xray", out.xray)
      .finish();
}

std::string to_json(const SessionSummary& summary) { return json_text(summary_json(summary)); }

Result<SessionSummary> parse_session_summary(std::string_view text) {
  return parse_as<SessionSummary>(text, kMaxDepth);
}

}  // namespace profd
