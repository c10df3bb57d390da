#include "formats/api/history_api.h"

#include <utility>

#include "formats/api/json_members.h"
#include "formats/api/start_request_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;

Error invalid(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
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

void members(auto& fields, Is<ProcessShare> auto& process) {
  fields.required("cpu_percent", process.cpu_percent)
      .required("pid", process.pid)
      .required("start_time_ns", process.start_time_ns)
      .required("comm", process.comm)
      .optional("unit", process.unit)
      .optional("container", process.container)
      .required("samples", process.samples)
      .required("user_samples", process.user_samples)
      .required("complete_samples", process.complete_samples)
      .optional("jit", process.jit);
}

void members(auto& fields, Is<WindowShares> auto& window) {
  fields.required("window", window.window)
      .required("started", window.started)
      .required("seconds", window.seconds)
      .required("samples", window.samples)
      .required("lost", window.lost)
      .required("processes", window.processes);
}

void members(auto& fields, Is<History> auto& history) {
  fields.required("windows", history.windows).required("left_out", history.left_out);
}

std::string to_json(const ExportRequest& request) {
  json::object object;
  add_range(request.range, object);
  if (!request.target.empty()) object["target"] = json_of(request.target);
  return json_text(object);
}

std::string to_json(const HistoryRequest& request) {
  json::object object;
  add_range(request.range, object);
  object["limit"] = request.limit;
  return json_text(object);
}

std::string to_json(const WindowShares& window) { return json_text(json_of(window)); }

std::string to_json(const History& history) { return json_text(json_of(history)); }

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
