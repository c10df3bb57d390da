#include "formats/control_api.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "formats/json_fields.h"
#include "formats/session_summary_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxRequestDepth = 4;
constexpr std::size_t kMaxAnswerDepth = 12;
constexpr std::size_t kMaxCommBytes = 15;  // the kernel keeps no more of a name
constexpr std::size_t kMaxEventBytes = 128;
// Each of a target's terms is looked at for every process that starts.
constexpr std::size_t kMaxPids = 256;
constexpr std::size_t kMaxComms = 64;
constexpr std::size_t kMaxUids = 64;
constexpr std::size_t kMaxCgroups = 8;
constexpr std::size_t kMaxPathBytes = 1024;
constexpr auto kMaxPathDepth = 8;
constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxQuotedBytes = 200;

constexpr auto kErrorCodes = std::to_array<std::pair<ErrorCode, std::string_view>>({
    {ErrorCode::kInvalidArgument, "invalid_argument"},
    {ErrorCode::kNotFound, "not_found"},
    {ErrorCode::kPermissionDenied, "permission_denied"},
    {ErrorCode::kUnsupported, "unsupported"},
    {ErrorCode::kUnavailable, "unavailable"},
    {ErrorCode::kMalformed, "malformed"},
    {ErrorCode::kTooLarge, "too_large"},
    {ErrorCode::kTimeout, "timeout"},
    {ErrorCode::kBusy, "busy"},
    {ErrorCode::kIo, "io"},
    {ErrorCode::kInternal, "internal"},
});

json::object target_json(const TargetRequest& target) {
  json::object object;
  if (target.all) object["all"] = true;
  if (!target.pids.empty()) object["pids"] = json::array(target.pids.begin(), target.pids.end());
  if (!target.comms.empty())
    object["comms"] = json::array(target.comms.begin(), target.comms.end());
  if (!target.uids.empty()) object["uids"] = json::array(target.uids.begin(), target.uids.end());
  if (!target.cgroups.empty()) {
    object["cgroups"] = json::array(target.cgroups.begin(), target.cgroups.end());
  }
  return object;
}

json::object session_json(const SessionInfo& session) {
  return {{"session", session.session},
          {"state", session.state},
          {"target", target_json(session.target)},
          {"event", session.event},
          {"frequency", session.frequency_hz},
          {"period", session.period},
          {"started", session.started},
          {"seconds", session.seconds},
          {"samples", session.samples},
          {"lost", session.lost},
          {"uid", session.uid},
          {"targets_alive", session.targets_alive}};
}

json::object ledger_json(const StatusInfo::Ledger& ledger) {
  return {{"taken", ledger.taken},
          {"sent", ledger.sent},
          {"idle", ledger.idle},
          {"filtered", ledger.filtered},
          {"lost", counts_json(ledger.lost)},
          {"difference", ledger.difference()}};
}

Error invalid(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

Result<void> check_comm(const std::string& comm) {
  if (comm.empty()) return invalid("a command name is empty");
  if (comm.size() <= kMaxCommBytes) return {};
  return invalid(
      "the command name \"" + comm + "\" is longer than the 15 bytes that the kernel keeps",
      "give \"" + comm.substr(0, kMaxCommBytes) + "\"");
}

Result<void> check_cgroup(const std::string& path) {
  const bool climbs = (path + "/").find("/../") != std::string::npos;
  if (path.starts_with('/') && !climbs && path.find('\0') == std::string::npos) return {};
  return invalid("\"" + path + "\" is no cgroup path",
                 "give it as below the cgroup v2 mount, for example /system.slice");
}

// Each stays where it first stood.
template <class T>
void fold_duplicates(std::vector<T>& terms) {
  std::set<T> seen;
  std::erase_if(terms, [&seen](const T& term) { return !seen.insert(term).second; });
}

void fold_duplicates(TargetRequest& target) {
  fold_duplicates(target.pids);
  fold_duplicates(target.comms);
  fold_duplicates(target.uids);
  fold_duplicates(target.cgroups);
}

Result<void> check_count(std::size_t count, std::size_t limit, const std::string& what) {
  if (count <= limit) return {};
  return invalid(
      "a target may have " + std::to_string(limit) + " " + what + ", not " + std::to_string(count),
      "start several sessions, or one of all processes");
}

Result<void> check_counts(const TargetRequest& target) {
  if (auto checked = check_count(target.pids.size(), kMaxPids, "pids"); !checked) return checked;
  if (auto checked = check_count(target.comms.size(), kMaxComms, "comms"); !checked) return checked;
  if (auto checked = check_count(target.uids.size(), kMaxUids, "uids"); !checked) return checked;
  return check_count(target.cgroups.size(), kMaxCgroups, "cgroups");
}

Result<void> check_target(const TargetRequest& target) {
  constexpr std::uint32_t kMaxPid = std::numeric_limits<std::int32_t>::max();
  if (target.empty()) return invalid("no target is given", "name a process, or all of them");
  if (auto checked = check_counts(target); !checked) return checked;
  for (const std::uint32_t pid : target.pids) {
    if (pid == 0 || pid > kMaxPid) return invalid(std::to_string(pid) + " is no pid");
  }
  for (const std::string& comm : target.comms) {
    if (auto checked = check_comm(comm); !checked) return checked;
  }
  for (const std::string& path : target.cgroups) {
    if (auto checked = check_cgroup(path); !checked) return checked;
  }
  return {};
}

Result<void> check_request(const StartRequest& request) {
  if (auto checked = check_target(request.target); !checked) return checked;
  if (request.from_exec && request.target.pids.empty()) return invalid("from_exec needs pids");
  if (request.event.empty()) return invalid("the event's name is empty");
  if (request.event.size() > kMaxEventBytes) return invalid("the event's name is over 128 bytes");
  if (request.frequency_hz != 0 && request.period != 0) {
    return invalid("frequency and period exclude each other");
  }
  return {};
}

// A number that a request may leave out, but not give as 0, which stands for "not given" in
// StartRequest.
struct PositiveNumber {
  std::uint64_t& out;
};

Result<void> read_json(const json::value& value, PositiveNumber& number) {
  if (auto read = profd::read_json(value, number.out); !read) return read;
  if (number.out == 0) return json_expected("a number above 0");
  return {};
}

std::string quoted(std::string_view body) {
  return "\"" + std::string(body.substr(0, kMaxQuotedBytes)) +
         (body.size() > kMaxQuotedBytes ? "...\"" : "\"");
}

}  // namespace

// The readers are found by their argument's type, hence not in the unnamed namespace.

Result<void> read_json(const json::value& value, TargetRequest& out) {
  return JsonFields(value)
      .optional("all", out.all)
      .optional("pids", out.pids)
      .optional("comms", out.comms)
      .optional("uids", out.uids)
      .optional("cgroups", out.cgroups)
      .finish_strict();
}

Result<void> read_json(const json::value& value, StartRequest& out) {
  PositiveNumber frequency{out.frequency_hz};
  PositiveNumber period{out.period};
  return JsonFields(value)
      .required("target", out.target)
      .optional("children", out.children)
      .optional("from_exec", out.from_exec)
      .optional("event", out.event)
      .optional("frequency", frequency)
      .optional("period", period)
      .optional("duration_ms", out.duration_ms)
      .finish_strict();
}

Result<void> read_json(const json::value& value, SessionInfo& out) {
  return JsonFields(value)
      .required("session", out.session)
      .required("state", out.state)
      .required("target", out.target)
      .required("event", out.event)
      .optional("frequency", out.frequency_hz)
      .optional("period", out.period)
      .required("started", out.started)
      .required("seconds", out.seconds)
      .required("samples", out.samples)
      .required("lost", out.lost)
      .optional("uid", out.uid)
      .optional("targets_alive", out.targets_alive)
      .finish();
}

Result<void> read_json(const json::value& value, ResultFile& out) {
  return JsonFields(value).required("path", out.path).required("bytes", out.bytes).finish();
}

Result<void> read_json(const json::value& value, ResultInfo& out) {
  return JsonFields(value)
      .required("result", out.result)
      .required("summary", out.summary)
      .required("files", out.files)
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

std::int64_t StatusInfo::Ledger::difference() const {
  return static_cast<std::int64_t>(taken - sent - idle - filtered - sum_of(lost));
}

std::string describe(const TargetRequest& target) {
  if (target.all) return "all";
  std::string text;
  const auto add = [&text](std::string_view kind, std::string_view name) {
    text.append(text.empty() ? "" : ", ").append(kind).append(" ").append(name);
  };
  for (const std::uint32_t pid : target.pids) add("pid", std::to_string(pid));
  for (const std::string& comm : target.comms) add("comm", comm);
  for (const std::uint32_t uid : target.uids) add("uid", std::to_string(uid));
  for (const std::string& cgroup : target.cgroups) add("cgroup", cgroup);
  return text;
}

std::string to_json(const StartRequest& request) {
  json::object object{{"target", target_json(request.target)},
                      {"children", request.children},
                      {"from_exec", request.from_exec},
                      {"event", request.event}};
  if (request.frequency_hz != 0) object["frequency"] = request.frequency_hz;
  if (request.period != 0) object["period"] = request.period;
  object["duration_ms"] = request.duration_ms;
  return json_text(object);
}

std::string to_json(const SessionInfo& session) { return json_text(session_json(session)); }

std::string to_json(const std::vector<SessionInfo>& sessions) {
  json::array list;
  for (const SessionInfo& session : sessions) list.push_back(session_json(session));
  return json_text(json::object{{"sessions", std::move(list)}});
}

std::string to_json(const ResultInfo& result) {
  json::array files;
  for (const ResultFile& file : result.files) {
    files.push_back(json::object{{"path", file.path}, {"bytes", file.bytes}});
  }
  return json_text(json::object{{"result", result.result},
                                {"summary", summary_json(result.summary)},
                                {"files", std::move(files)}});
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

std::string to_json(const Error& error) {
  return json_text(json::object{{"error", json::object{{"code", error_code_name(error.code)},
                                                       {"message", error.message},
                                                       {"hint", error.hint}}}});
}

std::string started_json(const std::string& session) {
  return json_text(json::object{{"session", session}});
}

Result<StartRequest> parse_start_request(std::string_view text) {
  const auto value = parse_json(text, kMaxRequestDepth);
  if (!value) return value.error();
  StartRequest request;
  if (auto read = read_json(*value, request); !read) return invalid(read.error().message);
  fold_duplicates(request.target);
  if (auto checked = check_request(request); !checked) return checked.error();
  return request;
}

Result<std::string> parse_started(std::string_view text) {
  const auto value = parse_json(text, kMaxAnswerDepth);
  if (!value) return value.error();
  std::string session;
  if (auto read = JsonFields(*value).required("session", session).finish(); !read) {
    return read.error();
  }
  return session;
}

Result<SessionInfo> parse_session_info(std::string_view text) {
  return parse_as<SessionInfo>(text, kMaxAnswerDepth);
}

Result<std::vector<SessionInfo>> parse_session_list(std::string_view text) {
  const auto value = parse_json(text, kMaxAnswerDepth);
  if (!value) return value.error();
  std::vector<SessionInfo> sessions;
  if (auto read = JsonFields(*value).required("sessions", sessions).finish(); !read) {
    return read.error();
  }
  return sessions;
}

Result<ResultInfo> parse_result_info(std::string_view text) {
  return parse_as<ResultInfo>(text, kMaxAnswerDepth);
}

Result<StatusInfo> parse_status_info(std::string_view text) {
  return parse_as<StatusInfo>(text, kMaxAnswerDepth);
}

Error parse_error(std::string_view text) {
  Error unreadable = fail(ErrorCode::kInternal, "profd answered " + quoted(text));
  const auto value = parse_json(text, kMaxAnswerDepth);
  const auto* const object = value ? value->if_object() : nullptr;
  const auto* const inner = object != nullptr ? object->if_contains("error") : nullptr;
  if (inner == nullptr) return unreadable;
  std::string code;
  Error error;
  const auto read = JsonFields(*inner)
                        .required("code", code)
                        .required("message", error.message)
                        .optional("hint", error.hint)
                        .finish();
  if (!read) return unreadable;
  const auto* const known =
      std::ranges::find(kErrorCodes, code, &decltype(kErrorCodes)::value_type::second);
  error.code = known == kErrorCodes.end() ? ErrorCode::kInternal : known->first;
  return error;
}

std::string_view error_code_name(ErrorCode code) {
  const auto* const known =
      std::ranges::find(kErrorCodes, code, &decltype(kErrorCodes)::value_type::first);
  return known == kErrorCodes.end() ? "internal" : known->second;
}

namespace {

bool is_all_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

}  // namespace

bool is_valid_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && is_all_of(id, "_-");
}

bool is_valid_result_path(std::string_view path) {
  if (path.size() > kMaxPathBytes || !is_all_of(path, "._+-/")) return false;
  for (int depth = 0; depth < kMaxPathDepth; ++depth) {
    const std::size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace profd
