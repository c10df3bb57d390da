#include "formats/api/history_api.h"

#include <algorithm>

#include "formats/base/errors.h"
#include "formats/base/json_members.h"

namespace profd {
namespace {

Result<void> check_range(const TimeRange& range) {
  if (range.until_ms > TimeRange::kEndMs) return invalid_argument("until_ms is too far from now");
  if (range.since_ms < range.until_ms) return {};
  return invalid_argument("the range " + fault_of_range(range),
                          "give a --since that is before --until");
}

constexpr std::string_view kTicksEvent = "cpu";
constexpr std::string_view kBlocksEvent = "off-cpu";
constexpr std::string_view kNamePattern = "00000000T000000Z";

bool is_name_digit(char c) { return c >= '0' && c <= '9'; }

// Of digits.
unsigned number_at(std::string_view name, std::size_t place, std::size_t digits) {
  unsigned number = 0;
  for (const char digit : name.substr(place, digits)) {
    number = number * 10 + static_cast<unsigned>(digit - '0');
  }
  return number;
}

// Behind the time: nothing, or "-" and a number of at most three digits.
bool is_end_of_name(std::string_view end) {
  if (end.empty()) return true;
  return end.starts_with('-') && end.size() >= 2 && end.size() <= 4 &&
         std::ranges::all_of(end.substr(1), is_name_digit);
}

}  // namespace

Result<void> check_history_event(std::string_view event) {
  if (event.empty() || event == kTicksEvent || event == kBlocksEvent) return {};
  return invalid_argument("the history has no event '" + std::string(event.substr(0, 64)) + "'",
                          "it has cpu, and off-cpu where [continuous] off_cpu is true");
}

bool asks_for_blocks(std::string_view history_event) { return history_event == kBlocksEvent; }

void members(auto& fields, Is<ExportRequest> auto& request) {
  fields.optional("since_ms", request.range.since_ms)
      .optional("until_ms", request.range.until_ms)
      .if_set("target", request.target)
      .if_set("profile_only", request.profile_only)
      .if_set("event", request.event)
      .no_others();
}

void members(auto& fields, Is<HistoryRequest> auto& request) {
  fields.optional("since_ms", request.range.since_ms)
      .optional("until_ms", request.range.until_ms)
      .optional("limit", request.limit)
      .if_set("target", request.target)
      .if_set("sum", request.sum)
      .if_positive("groups", request.groups)
      .if_set("event", request.event)
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
      .optional("jit", process.jit)
      .if_set("interpreted", process.interpreted);
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
  fields.required("windows", names.windows).optional("removed", names.removed);
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
  if (auto checked = check_history_event(request->event); !checked) return checked.error();
  return request;
}

Result<HistoryRequest> parse_history_request(std::string_view text) {
  auto request = parse_request<HistoryRequest>(text);
  if (!request) return request;
  if (auto checked = check_range(request->range); !checked) return checked.error();
  if (auto checked = check_target(request->target); !checked) return checked.error();
  if (auto checked = check_history_event(request->event); !checked) return checked.error();
  if (request->limit == 0 || request->limit > HistoryRequest::kMaxWindows) {
    return invalid_argument("invalid limit " + std::to_string(request->limit) + " (1 to " +
                            std::to_string(HistoryRequest::kMaxWindows) + ")");
  }
  const std::uint64_t most_groups = HistoryRequest::kMaxGroups / request->limit;
  if (request->groups > most_groups) {
    return invalid_argument("invalid groups " + std::to_string(request->groups) + " (1 to " +
                            std::to_string(most_groups) + " with this limit)");
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

std::optional<std::chrono::system_clock::time_point> start_of_window(std::string_view name) {
  // No sum of such a time and a span of time overflows.
  constexpr std::chrono::year kFirstYear{1970};
  constexpr std::chrono::year kLastYear{2199};
  const auto fits = [](char c, char pattern) {
    return pattern == '0' ? is_name_digit(c) : c == pattern;
  };
  if (name.size() < kNamePattern.size() ||
      !std::ranges::equal(name.substr(0, kNamePattern.size()), kNamePattern, fits) ||
      !is_end_of_name(name.substr(kNamePattern.size()))) {
    return std::nullopt;
  }
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number_at(name, 0, 4))),
                                        std::chrono::month(number_at(name, 4, 2)),
                                        std::chrono::day(number_at(name, 6, 2))};
  const unsigned hour = number_at(name, 9, 2);
  const unsigned minute = number_at(name, 11, 2);
  const unsigned second = number_at(name, 13, 2);
  const bool is_time = day.ok() && day.year() >= kFirstYear && day.year() <= kLastYear &&
                       hour < 24 && minute < 60 && second < 60;
  if (!is_time) return std::nullopt;
  return std::chrono::sys_days(day) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

}  // namespace profd
