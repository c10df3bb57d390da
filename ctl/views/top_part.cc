#include "ctl/views/top_part.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/output/columns.h"
#include "ctl/output/text.h"
#include "ctl/views/view_json.h"
#include "ctl/views/view_text.h"
#include "formats/base/json_text.h"

namespace profd {
namespace {

TopProcess process_of(const Samples& samples, const SampleLabels& labels) {
  const auto text = [&samples](std::uint32_t index) { return std::string(samples.text(index)); };
  return {.pid = labels.pid,
          .comm = text(labels.comm),
          .unit = text(labels.unit),
          .container = text(labels.container),
          .user = text(labels.user),
          .runtime = text(labels.runtime)};
}

// By the name of their group. All label sets of a process differ in nothing else that is shown.
std::map<std::string_view, TopProcess> processes_by_name(const Samples& samples,
                                                         const GroupTable& groups) {
  std::map<std::string_view, TopProcess> processes;
  for (std::size_t i = 0; i < groups.of.size(); ++i) {
    processes.try_emplace(groups.groups[groups.of[i]].name,
                          process_of(samples, samples.labels()[i]));
  }
  return processes;
}

std::string mark_of(std::size_t row, std::size_t marked) { return row == marked ? ">" : ""; }

template <class Rows>
Rows first_of(const Rows& rows, std::size_t count) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(count, rows.size()))};
}

boost::json::object json_of(const ViewScope& scope, const TopProcess& process) {
  boost::json::object json{{"pid", process.pid},
                           {"comm", process.comm},
                           {"unit", process.unit},
                           {"container", process.container},
                           {"user", process.user},
                           {"runtime", process.runtime},
                           {"samples", process.value.samples}};
  if (scope.has_cpu_time) {
    json.emplace(kind_names(scope.time_kind).member, process.value.cpu_ns);
  }
  if (scope.has_cpu_percent()) json.emplace("cpu_percent", scope.cpu_percent_of(process.value));
  return json;
}

}  // namespace

TopPart make_top_part(const Samples& samples, const SessionSummary& summary, NameForm names) {
  const Selection selection(samples, {});
  Report by_process = make_report(selection, {GroupKey::kProcess, GroupKey::kFunction}, names);
  Report by_function = make_report(selection, {GroupKey::kFunction}, names);
  const GroupTable groups = group_labels(samples, {GroupKey::kProcess});
  auto known = processes_by_name(samples, groups);
  TopPart part{.scope = by_function.scope, .summary = summary};
  part.processes.reserve(by_process.rows.size());
  for (ReportRow& row : by_process.rows) {
    TopProcess process = known[row.group.name];
    process.name = row.group.name;
    process.value = row.total;
    process.functions = std::move(row.rows);
    part.processes.push_back(std::move(process));
  }
  part.functions = std::move(by_function.rows);
  return part;
}

std::string top_sums_text(const TopPart& part) {
  const ViewScope& scope = part.scope;
  std::string text;
  if (scope.has_cpu_percent()) text += cpu_text(scope.cpu_percent_of(scope.all)) + " CPU, ";
  if (is_of_blocks(scope.time_kind)) {
    text += cpu_time_text(scope.all.cpu_ns) + " " + kind_names(scope.time_kind).behind + ", ";
  }
  text += count_text(scope, scope.all);
  text += ", " + std::to_string(sum_of(part.summary.ledger.lost)) + " lost";
  const std::string idle = idle_text(scope);
  return idle.empty() ? text : text + "; " + idle;
}

std::string processes_table(const ViewScope& scope, const std::vector<TopProcess>& processes,
                            std::size_t marked, const Screen& screen) {
  FittingTable table({{.title = ""},
                      {.title = amount_title(scope)},
                      {.title = "PID"},
                      {.title = "COMMAND", .kind = ColumnKind::kName},
                      {.title = "UNIT", .kind = ColumnKind::kOptional},
                      {.title = "RUNTIME", .kind = ColumnKind::kOptional},
                      {.title = "USER", .kind = ColumnKind::kOptional}});
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const TopProcess& process = processes[i];
    const TextColor color = i == marked ? TextColor::kBold : TextColor::kNone;
    table.add({{mark_of(i, marked), color},
               {amount_text(scope, process.value), color},
               {process.pid == 0 ? "" : std::to_string(process.pid), color},
               {process.comm, color},
               {process.unit, TextColor::kDim},
               {process.runtime, TextColor::kGreen},
               {process.user, TextColor::kDim}});
  }
  return table.text(screen);
}

std::string functions_table(const ViewScope& scope, const std::vector<ReportRow>& functions,
                            std::size_t marked, const Screen& screen) {
  const std::string amount = amount_title(scope);
  FittingTable table({{.title = ""},
                      {.title = "SELF " + amount},
                      {.title = "TOTAL " + amount, .is_optional = true},
                      {.title = "FUNCTION", .kind = ColumnKind::kName},
                      {.title = "OBJECT", .kind = ColumnKind::kOptional}});
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const ReportRow& row = functions[i];
    const TextColor color = i == marked ? TextColor::kBold : TextColor::kNone;
    table.add({{mark_of(i, marked), color},
               {amount_text(scope, row.self), color},
               {amount_text(scope, row.total), color},
               {row.group.name, i == marked ? color : color_of(row.group)},
               {std::string(base_name(row.group.object)), TextColor::kDim}});
  }
  return table.text(screen);
}

std::string top_text(const TopPart& part, std::size_t rows, const Screen& screen) {
  return top_sums_text(part) + "\n\n" +
         processes_table(part.scope, first_of(part.processes, rows), kNoneMarked, screen) + "\n" +
         functions_table(part.scope, first_of(part.functions, rows), kNoneMarked, screen);
}

std::string to_json(const TopPart& part, std::size_t rows) {
  boost::json::object json{{"started", part.summary.started}};
  boost::json::array processes;
  for (const TopProcess& process : first_of(part.processes, rows)) {
    processes.push_back(json_of(part.scope, process));
  }
  json.emplace("processes", std::move(processes));
  if (part.processes.size() > rows) {
    json.emplace("processes_left_out", part.processes.size() - rows);
  }
  json.emplace(
      "functions",
      report_json({.scope = part.scope, .by = {GroupKey::kFunction}, .rows = part.functions},
                  rows));
  json.emplace("ledger", json_of(part.summary).at("ledger"));
  return json_text(json);
}

}  // namespace profd
