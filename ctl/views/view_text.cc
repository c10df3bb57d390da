#include "ctl/views/view_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "ctl/output/columns.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr double kNsPerSecond = 1e9;

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

std::string share_text_of(const ViewScope& scope, const SampleValue& value) {
  return percent_text(scope.share_of(value));
}

// "+12.3 %"
std::string signed_percent(double percent) {
  const std::string text = percent_text(std::abs(percent));
  return (text == "0.0 %" ? "" : percent < 0 ? "-" : "+") + text;
}

std::string keys_title(const std::vector<GroupKey>& by) {
  std::string title;
  for (const GroupKey key : by) title += (title.empty() ? "" : ", ") + upper(name_of(key));
  return title;
}

// Of one side of a comparison.
std::string side_text(const ViewScope& scope) {
  const std::string idle = idle_text(scope);
  return scope_text(scope) + (idle.empty() ? "" : ", " + idle);
}

class ReportTable {
 public:
  ReportTable(const Report& report, const ViewLimits& limits)
      : report_(report), limits_(limits), table_(heads()) {}

  std::string text(const Screen& screen) {
    const std::size_t shown = std::min(report_.rows.size(), limits_.rows);
    for (std::size_t i = 0; i < shown; ++i) add(report_.rows[i]);
    std::string text = table_.text(screen);
    if (const std::size_t left = report_.rows.size() - shown; left != 0) {
      text += "... " + counted(left, "more row") + " (--all, --limit N)\n";
    }
    return text;
  }

 private:
  [[nodiscard]] std::vector<ColumnHead> heads() const {
    const std::string amount = amount_title(report_.scope);
    std::vector<ColumnHead> heads;
    if (has_self()) {
      heads.push_back({.title = "SELF " + amount, .is_optional = true});
      heads.push_back({.title = "SELF"});
    }
    heads.push_back({.title = has_self() ? "TOTAL " + amount : amount, .is_optional = true});
    heads.push_back({.title = has_self() ? "TOTAL" : "SHARE"});
    if (report_.scope.has_block_times()) heads.push_back({.title = "PER BLOCK"});
    if (has_longest()) heads.push_back({.title = "LONGEST"});
    heads.push_back({.title = keys_title(report_.by), .kind = ColumnKind::kName});
    if (has_self()) heads.push_back({.title = "OBJECT", .kind = ColumnKind::kOptional});
    return heads;
  }

  // Labels have no callers.
  [[nodiscard]] bool has_self() const {
    return std::ranges::any_of(report_.by, [](GroupKey key) { return is_of_frames(key); });
  }

  // Files of earlier versions don't say it.
  [[nodiscard]] bool has_longest() const {
    return report_.is_by_longest_block && report_.scope.all.longest_ns > 0;
  }

  void add(const ReportRow& row) {
    add_line(row, 0);
    const std::size_t shown = std::min(row.rows.size(), limits_.inner);
    for (std::size_t i = 0; i < shown; ++i) add_line(row.rows[i], 1);
    const std::size_t left = row.rows.size() - shown;
    if (left == 0) return;
    std::vector<TableText> texts(heads().size());
    const std::size_t name = texts.size() - (has_self() ? 2 : 1);
    texts[name] = {
        .text = "... " + std::to_string(left) + " more", .color = TextColor::kDim, .indent = 2};
    table_.add(std::move(texts));
  }

  void add_line(const ReportRow& row, std::size_t level) {
    const ViewScope& scope = report_.scope;
    std::vector<TableText> texts;
    if (has_self()) {
      texts.push_back({amount_text(scope, row.self)});
      texts.push_back({share_text_of(scope, row.self)});
    }
    texts.push_back({amount_text(scope, row.total)});
    texts.push_back({share_text_of(scope, row.total)});
    if (scope.has_block_times()) texts.push_back({block_time_text(block_ns(row.total))});
    if (has_longest()) {
      const std::int64_t longest = row.total.longest_ns;
      texts.push_back({longest > 0 ? block_time_text(longest) : "-"});
    }
    const bool is_head = level == 0 && report_.by.size() > 1;
    texts.push_back({.text = row.group.name,
                     .color = is_head ? TextColor::kBold : color_of(row.group),
                     .indent = 2 * level});
    if (has_self()) {
      texts.push_back({std::string(base_name(row.group.object)), TextColor::kDim});
    }
    table_.add(std::move(texts));
  }

  const Report& report_;
  const ViewLimits& limits_;
  FittingTable table_;
};

}  // namespace

std::string cpu_time_text(std::int64_t cpu_ns) {
  const double seconds = static_cast<double>(cpu_ns) / kNsPerSecond;
  return seconds < 120 ? decimal_text(seconds, seconds < 10 ? 2 : 1) + " s"
                       : duration_text(seconds);
}

std::string block_time_text(std::int64_t ns) {
  constexpr std::int64_t kUs = 1'000;
  constexpr std::int64_t kMs = 1'000 * kUs;
  if (ns >= 1'000 * kMs) return cpu_time_text(ns);
  if (ns < kUs) return std::to_string(ns) + " ns";
  const bool is_ms = ns >= kMs;
  const double number = static_cast<double>(ns) / static_cast<double>(is_ms ? kMs : kUs);
  return decimal_text(number, number < 10 ? 2 : 1) + (is_ms ? " ms" : " us");
}

TextColor color_of(const Group& group) {
  if (group.kind == FrameKind::kKernel) return TextColor::kYellow;
  if (group.kind == FrameKind::kInterpreted) return TextColor::kCyan;
  return group.kind == FrameKind::kRuntime ? TextColor::kGreen : TextColor::kNone;
}

std::string count_text(const ViewScope& scope, const SampleValue& value) {
  return counted(static_cast<std::uint64_t>(value.samples), kind_names(scope.time_kind).noun);
}

std::string size_text(const ViewScope& scope, const SampleValue& value) {
  return scope.has_counts ? count_text(scope, value) : cpu_time_text(value.cpu_ns);
}

std::string amount_text(const ViewScope& scope, const SampleValue& value) {
  if (scope.has_cpu_percent()) return percent_text(scope.cpu_percent_of(value));
  if (scope.has_cpu_time) return cpu_time_text(value.cpu_ns);
  return std::to_string(value.samples);
}

std::string amount_title(const ViewScope& scope) {
  if (scope.has_cpu_percent()) return "CPU";
  return scope.has_cpu_time ? "TIME" : "SAMPLES";
}

std::string scope_text(const ViewScope& scope) {
  std::string text;
  if (scope.duration_ns > 0) {
    const double seconds = static_cast<double>(scope.duration_ns) / kNsPerSecond;
    text += (seconds < 10 ? decimal_text(seconds, 1) + " s" : duration_text(seconds)) + ": ";
  }
  if (scope.has_counts) text += count_text(scope, scope.all) + (scope.has_cpu_time ? ", " : "");
  if (scope.has_cpu_time) {
    text += cpu_time_text(scope.all.cpu_ns) + " " + kind_names(scope.time_kind).behind;
    if (scope.has_cpu_percent()) {
      text += " (" + percent_text(scope.cpu_percent_of(scope.all)) + " of one CPU)";
    }
  } else if (scope.event != "samples") {  // folded stacks do not say of what they are
    text += " of " + scope.event;
  }
  if (scope.shown != scope.all) text += ", " + share_text_of(scope, scope.shown) + " shown";
  return text;
}

std::string idle_sum_text(const ViewScope& scope) {
  if (scope.idle == SampleValue() || scope.duration_ns <= 0) return {};
  const double threads =
      static_cast<double>(scope.idle.cpu_ns) / static_cast<double>(scope.duration_ns);
  const auto whole = static_cast<std::uint64_t>(std::max(std::llround(threads), 1LL));
  return "idle: " + cpu_time_text(scope.idle.cpu_ns) + ", as " + counted(whole, "thread") +
         " all the time";
}

std::string idle_text(const ViewScope& scope) {
  const std::string sum = idle_sum_text(scope);
  return sum.empty() ? sum : sum + " (--idle shows them)";
}

std::string report_text(const Report& report, const ViewLimits& limits, const Screen& screen) {
  return ReportTable(report, limits).text(screen);
}

std::string tree_text(const CallTree& tree, const Screen& screen) {
  // A caller's own time is in none of these samples: they are of the function that it calls.
  const bool has_self = tree.direction != TreeDirection::kCallers;
  std::vector<ColumnHead> heads{{.title = "TOTAL " + amount_title(tree.scope), .is_optional = true},
                                {.title = "TOTAL"}};
  if (has_self) heads.push_back({.title = "SELF"});
  heads.push_back({.title = "FUNCTION", .kind = ColumnKind::kName});
  FittingTable table(heads);
  for (const TreeNode& node : tree.nodes) {
    std::vector<TableText> texts{{amount_text(tree.scope, node.total)},
                                 {share_text_of(tree.scope, node.total)}};
    if (has_self) texts.push_back({share_text_of(tree.scope, node.self)});
    texts.push_back({.text = node.group.name + (node.is_cut ? " ..." : ""),
                     .color = color_of(node.group),
                     .indent = node.depth});
    table.add(std::move(texts));
  }
  std::string text = table.text(screen);
  if (tree.left_out != 0) {
    text += "... " + counted(tree.left_out, "smaller node") + " left out, with " +
            share_text_of(tree.scope, tree.left_out_self) + " of all samples (--all, --limit N)\n";
  }
  return text;
}

std::string diff_text(const Diff& diff, const DiffTitles& titles, const ViewLimits& limits,
                      const Screen& screen) {
  const bool has_total = is_of_frames(diff.by.back());
  std::vector<ColumnHead> heads{{.title = "CHANGE"},
                                {.title = "BASE", .is_optional = true},
                                {.title = "NEW", .is_optional = true}};
  if (has_total) heads.push_back({.title = "TOTAL CHANGE", .is_optional = true});
  heads.push_back({.title = keys_title(diff.by), .kind = ColumnKind::kName});
  FittingTable table(heads);
  std::size_t changed = 0;
  std::size_t shown = 0;
  for (const DiffRow& row : diff.rows) {
    if (row.change() == 0 && row.total_change() == 0) continue;
    ++changed;
    if (shown == limits.rows) continue;
    ++shown;
    std::vector<TableText> texts{
        {signed_percent(row.change()), row.change() > 0 ? TextColor::kRed : TextColor::kGreen},
        {row.is_new() ? "new" : percent_text(row.base.self_percent)},
        {row.is_gone() ? "gone" : percent_text(row.now.self_percent)}};
    if (has_total) texts.push_back({signed_percent(row.total_change())});
    texts.push_back({.text = row.group.name, .color = color_of(row.group)});
    table.add(std::move(texts));
  }
  std::string text = "base: " + titles.base + ", " + side_text(diff.base) +
                     "\nnew:  " + titles.now + ", " + side_text(diff.now) + "\n\n";
  if (changed == 0) return text + "no change\n";
  text += table.text(screen);
  if (changed > shown) {
    text += "... " + counted(changed - shown, "more row") + " (--all, --limit N)\n";
  }
  return text;
}

}  // namespace profd
