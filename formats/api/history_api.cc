#include "formats/api/history_api.h"

#include "formats/base/errors.h"
#include "formats/base/json_members.h"

namespace profd {
namespace {

Result<void> check_range(const TimeRange& range) {
  if (range.until_ms > TimeRange::kEndMs) return invalid_argument("until_ms is too far from now");
  if (range.since_ms < range.until_ms) return {};
  return invalid_argument("the range ends before it begins",
                          "give a --since that is before --until");
}

}  // namespace

void members(auto& fields, Is<ExportRequest> auto& request) {
  fields.optional("since_ms", request.range.since_ms)
      .optional("until_ms", request.range.until_ms)
      .if_set("target", request.target)
      .if_set("profile_only", request.profile_only)
      .no_others();
}

void members(auto& fields, Is<HistoryRequest> auto& request) {
  fields.optional("since_ms", request.range.since_ms)
      .optional("until_ms", request.range.until_ms)
      .optional("limit", request.limit)
      .if_set("target", request.target)
      .if_set("sum", request.sum)
      .no_others();
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

void members(auto& fields, Is<GroupShare> auto& group) {
  fields.required("cpu_percent", group.cpu_percent)
      .required("name", group.name)
      .required("is_unit", group.is_unit)
      .required("processes", group.processes)
      .required("samples", group.samples);
}

void members(auto& fields, Is<WindowShares> auto& window) {
  fields.required("window", window.window)
      .required("started", window.started)
      .required("ended", window.ended)
      .required("seconds", window.seconds)
      .required("cpu_percent", window.cpu_percent)
      .required("samples", window.samples)
      .required("lost", window.lost)
      .required("groups", window.groups)
      .required("processes", window.processes);
}

void members(auto& fields, Is<History> auto& history) {
  fields.required("windows", history.windows).required("left_out", history.left_out);
}

void members(auto& fields, Is<WindowNames> auto& names) {
  fields.required("windows", names.windows);
}

std::string to_json(const WindowNames& names) { return json_text(json_of(names)); }

std::string to_json(const ExportRequest& request) { return json_text(json_of(request)); }

std::string to_json(const HistoryRequest& request) { return json_text(json_of(request)); }

std::string to_json(const WindowShares& window) { return json_text(json_of(window)); }

std::string to_json(const History& history) { return json_text(json_of(history)); }

Result<ExportRequest> parse_export_request(std::string_view text) {
  auto request = parse_request<ExportRequest>(text);
  if (!request) return request;
  if (auto checked = check_range(request->range); !checked) return checked.error();
  if (auto checked = check_target(request->target); !checked) return checked.error();
  return request;
}

Result<HistoryRequest> parse_history_request(std::string_view text) {
  auto request = parse_request<HistoryRequest>(text);
  if (!request) return request;
  if (auto checked = check_range(request->range); !checked) return checked.error();
  if (auto checked = check_target(request->target); !checked) return checked.error();
  if (request->limit == 0 || request->limit > HistoryRequest::kMaxWindows) {
    return invalid_argument("invalid limit " + std::to_string(request->limit) + " (1 to " +
                            std::to_string(HistoryRequest::kMaxWindows) + ")");
  }
  return request;
}

Result<WindowShares> parse_window_shares(std::string_view text) {
  return parse_as<WindowShares>(text);
}

Result<History> parse_history(std::string_view text) { return parse_as<History>(text); }

Result<WindowNames> parse_window_names(std::string_view text) {
  return parse_as<WindowNames>(text);
}

}  // namespace profd
