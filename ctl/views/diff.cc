#include "ctl/views/diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "formats/base/errors.h"

namespace profd {
namespace {

using RowsByName = std::map<std::string, DiffRow>;

void add_side(const Report& report, const ReportRow& row, const std::string& prefix,
              DiffMeasure measure, DiffSide DiffRow::*side, RowsByName& rows) {
  const std::string name = prefix + row.group.name;
  if (report.by.size() > 1 && prefix.empty()) {
    for (const ReportRow& inner : row.rows) {
      add_side(report, inner, name + ": ", measure, side, rows);
    }
    return;
  }
  DiffRow& diff = rows[name];
  diff.group = row.group;
  diff.group.name = name;
  const auto percent = [&](const SampleValue& value) {
    return measure == DiffMeasure::kCpu ? report.scope.cpu_percent_of(value)
                                        : report.scope.share_of(value);
  };
  diff.*side = {.self = row.self,
                .total = row.total,
                .self_percent = percent(row.self),
                .total_percent = percent(row.total)};
}

bool has_time_in_duration(const ViewScope& scope) {
  return scope.has_cpu_time && scope.duration_ns > 0;
}

}  // namespace

std::size_t Diff::count_beyond(double percentage_points) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows, [&](const DiffRow& row) { return std::abs(row.change()) > percentage_points; }));
}

Result<Diff> make_diff(const Report& base, const Report& now, DiffMeasure measure) {
  const bool has_cpu = has_time_in_duration(base.scope) && has_time_in_duration(now.scope);
  if (measure == DiffMeasure::kCpu && !has_cpu) {
    return invalid_argument("a source does not say how much CPU time in how long a time it has",
                            "compare shares: leave out --per cpu");
  }
  RowsByName rows;
  for (const ReportRow& row : base.rows) add_side(base, row, "", measure, &DiffRow::base, rows);
  for (const ReportRow& row : now.rows) add_side(now, row, "", measure, &DiffRow::now, rows);
  Diff diff{.base = base.scope, .now = now.scope, .by = now.by, .measure = measure, .rows = {}};
  for (auto& [name, row] : rows) diff.rows.push_back(std::move(row));
  std::ranges::stable_sort(diff.rows, [](const DiffRow& a, const DiffRow& b) {
    const auto key = [](const DiffRow& row) {
      return std::tuple(-std::abs(row.change()), -std::abs(row.total_change()));
    };
    return key(a) < key(b);
  });
  return diff;
}

}  // namespace profd
