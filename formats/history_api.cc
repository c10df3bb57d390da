#include "formats/history_api.h"

#include <utility>

#include "formats/json_fields.h"
#include "formats/session_summary_json.h"
#include "formats/start_request_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;

Error invalid(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

json::value text_or_null(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value(nullptr);
}

json::object process_json(const ProcessShare& process) {
  return {{"cpu_percent", process.cpu_percent},
          {"pid", process.pid},
          {"start_time_ns", process.start_time_ns},
          {"comm", process.comm},
          {"unit", text_or_null(process.unit)},
          {"container", text_or_null(process.container)},
          {"samples", process.samples},
          {"user_samples", process.user_samples},
          {"complete_samples", process.complete_samples},
          {"jit", process.jit ? json::value(jit_names_json(*process.jit)) : json::value(nullptr)}};
}

json::object window_json(const WindowShares& window) {
  json::array processes;
  for (const ProcessShare& process : window.processes) processes.push_back(process_json(process));
  return {{"window", window.window},          {"started", window.started},
          {"seconds", window.seconds},        {"samples", window.samples},
          {"lost", counts_json(window.lost)}, {"processes", std::move(processes)}};
}

void add_range(const TimeRange& range, json::object& object) {
  object["since_ms"] = range.since_ms;
  object["until_ms"] = range.until_ms;
}

Result<void> check_range(const TimeRange& range) {
  if (range.until_ms > TimeRange::kEndMs) return invalid("until_ms is too far from now");
  if (range.since_ms < range.until_ms) return {};
  return invalid("the range ends before it begins", "give a --since that is before --until");
}

}  // namespace

// The readers are found by their argument's type, hence not in the unnamed namespace.

Result<void> read_json(const json::value& value, ExportRequest& out) {
  return JsonFields(value)
      .optional("since_ms", out.range.since_ms)
      .optional("until_ms", out.range.until_ms)
      .optional("target", out.target)
      .finish_strict();
}

Result<void> read_json(const json::value& value, HistoryRequest& out) {
  return JsonFields(value)
      .optional("since_ms", out.range.since_ms)
      .optional("until_ms", out.range.until_ms)
      .optional("limit", out.limit)
      .finish_strict();
}

Result<void> read_json(const json::value& value, ProcessShare& out) {
  return JsonFields(value)
      .required("cpu_percent", out.cpu_percent)
      .required("pid", out.pid)
      .required("start_time_ns", out.start_time_ns)
      .required("comm", out.comm)
      .optional("unit", out.unit)
      .optional("container", out.container)
      .required("samples", out.samples)
      .required("user_samples", out.user_samples)
      .required("complete_samples", out.complete_samples)
      .optional("jit", out.jit)
      .finish();
}

Result<void> read_json(const json::value& value, WindowShares& out) {
  return JsonFields(value)
      .required("window", out.window)
      .required("started", out.started)
      .required("seconds", out.seconds)
      .required("samples", out.samples)
      .required("lost", out.lost)
      .required("processes", out.processes)
      .finish();
}

Result<void> read_json(const json::value& value, History& out) {
  return JsonFields(value)
      .required("windows", out.windows)
      .required("left_out", out.left_out)
      .finish();
}

std::string to_json(const ExportRequest& request) {
  json::object object;
  add_range(request.range, object);
  if (!request.target.empty()) object["target"] = target_json(request.target);
  return json_text(object);
}

std::string to_json(const HistoryRequest& request) {
  json::object object;
  add_range(request.range, object);
  object["limit"] = request.limit;
  return json_text(object);
}

std::string to_json(const WindowShares& window) { return json_text(window_json(window)); }

std::string to_json(const History& history) {
  json::array windows;
  for (const WindowShares& window : history.windows) windows.push_back(window_json(window));
  return json_text(json::object{{"windows", std::move(windows)}, {"left_out", history.left_out}});
}

Result<ExportRequest> parse_export_request(std::string_view text) {
  const auto value = parse_json(text, kMaxDepth);
  if (!value) return value.error();
  ExportRequest request;
  if (auto read = read_json(*value, request); !read) return invalid(read.error().message);
  if (auto checked = check_range(request.range); !checked) return checked.error();
  if (auto checked = check_target(request.target); !checked) return checked.error();
  return request;
}

Result<HistoryRequest> parse_history_request(std::string_view text) {
  const auto value = parse_json(text, kMaxDepth);
  if (!value) return value.error();
  HistoryRequest request;
  if (auto read = read_json(*value, request); !read) return invalid(read.error().message);
  if (auto checked = check_range(request.range); !checked) return checked.error();
  if (request.limit == 0 || request.limit > HistoryRequest::kMaxWindows) {
    return invalid("limit is 1 to " + std::to_string(HistoryRequest::kMaxWindows));
  }
  return request;
}

Result<WindowShares> parse_window_shares(std::string_view text) {
  return parse_as<WindowShares>(text, kMaxDepth);
}

Result<History> parse_history(std::string_view text) { return parse_as<History>(text, kMaxDepth); }

}  // namespace profd
