#include "ctl/views/view_json.h"

#include <algorithm>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "formats/base/json_text.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

object json_of(const ViewScope& scope, const SampleValue& value) {
  object json;
  if (scope.has_counts) json.emplace("samples", value.samples);
  if (scope.has_cpu_time) json.emplace(kind_names(scope.time_kind).member, value.cpu_ns);
  if (value.longest_ns > 0) json.emplace("longest_ns", value.longest_ns);
  return json;
}

object json_of(const ViewScope& scope) {
  object json{{"event", scope.event}, {"all", json_of(scope, scope.all)}};
  if (scope.duration_ns > 0) json.emplace("duration_ns", scope.duration_ns);
  if (scope.shown != SampleValue()) json.emplace("shown", json_of(scope, scope.shown));
  if (scope.idle != SampleValue()) json.emplace("idle", json_of(scope, scope.idle));
  return json;
}

array json_of(const std::vector<GroupKey>& keys) {
  array json;
  for (const GroupKey key : keys) json.emplace_back(name_of(key));
  return json;
}

void add_group(const Group& group, bool is_frame, object& json) {
  json.emplace("name", group.name);
  if (!is_frame) return;
  if (!group.object.empty()) json.emplace("object", group.object);
  json.emplace("kind", name_of(group.kind));
}

void add_percent(const ViewScope& scope, const SampleValue& value, const char* share,
                 const char* cpu, object& json) {
  json.emplace(share, scope.share_of(value));
  if (scope.has_cpu_percent()) json.emplace(cpu, scope.cpu_percent_of(value));
}

// The rows of one level.
class RowsOfReport {
 public:
  RowsOfReport(const Report& report, std::size_t max_rows) : report_(report), max_(max_rows) {}

  void add(const std::vector<ReportRow>& rows, std::size_t level, object& to) const {
    array list;
    for (std::size_t i = 0; i < std::min(rows.size(), max_); ++i) {
      list.push_back(json_of_row(rows[i], level));
    }
    to.emplace("rows", std::move(list));
    if (rows.size() > max_) to.emplace("left_out", rows.size() - max_);
  }

 private:
  [[nodiscard]] object json_of_row(const ReportRow& row, std::size_t level) const {
    const ViewScope& scope = report_.scope;
    object json;
    add_group(row.group, is_of_frames(report_.by[level]), json);
    json.emplace("self", json_of(scope, row.self));
    json.emplace("total", json_of(scope, row.total));
    add_percent(scope, row.self, "self_percent", "self_cpu_percent", json);
    add_percent(scope, row.total, "total_percent", "total_cpu_percent", json);
    if (level + 1 < report_.by.size()) add(row.rows, level + 1, json);
    return json;
  }

  const Report& report_;
  std::size_t max_;
};

object json_of(const ViewScope& scope, const DiffSide& side) {
  return {{"self", json_of(scope, side.self)},
          {"total", json_of(scope, side.total)},
          {"self_percent", side.self_percent},
          {"total_percent", side.total_percent}};
}

}  // namespace

object report_json(const Report& report, std::size_t max_rows) {
  object json = json_of(report.scope);
  json.emplace("by", json_of(report.by));
  RowsOfReport(report, max_rows).add(report.rows, 0, json);
  return json;
}

std::string to_json(const Report& report, std::size_t max_rows) {
  return json_text(report_json(report, max_rows));
}

std::string to_json(const CallTree& tree) {
  object json = json_of(tree.scope);
  array nodes;
  for (const TreeNode& node : tree.nodes) {
    object one;
    add_group(node.group, !node.is_label, one);
    if (node.is_label) one.emplace("kind", "label");
    one.emplace("depth", node.depth);
    one.emplace("self", json_of(tree.scope, node.self));
    one.emplace("total", json_of(tree.scope, node.total));
    add_percent(tree.scope, node.total, "total_percent", "total_cpu_percent", one);
    nodes.push_back(std::move(one));
  }
  json.emplace("nodes", std::move(nodes));
  if (tree.left_out != 0) json.emplace("left_out", tree.left_out);
  return json_text(json);
}

std::string to_json(const Diff& diff, std::size_t max_rows, double threshold) {
  object json{{"base", json_of(diff.base)},
              {"new", json_of(diff.now)},
              {"by", json_of(diff.by)},
              {"per", diff.measure == DiffMeasure::kCpu ? "cpu" : "share"}};
  array rows;
  for (std::size_t i = 0; i < std::min(diff.rows.size(), max_rows); ++i) {
    const DiffRow& row = diff.rows[i];
    object one;
    add_group(row.group, is_of_frames(diff.by.back()), one);
    if (!row.is_new()) one.emplace("base", json_of(diff.base, row.base));
    if (!row.is_gone()) one.emplace("new", json_of(diff.now, row.now));
    one.emplace("change", row.change());
    one.emplace("total_change", row.total_change());
    rows.push_back(std::move(one));
  }
  json.emplace("rows", std::move(rows));
  if (diff.rows.size() > max_rows) json.emplace("left_out", diff.rows.size() - max_rows);
  json.emplace("beyond", diff.count_beyond(threshold));
  return json_text(json);
}

}  // namespace profd
