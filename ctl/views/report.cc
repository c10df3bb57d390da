#include "ctl/views/report.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "ctl/views/selected_stacks.h"

namespace profd {
namespace {

double percent_of(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// The sums of one group of labels and one group of frames.
struct GroupSum {
  std::uint32_t labels = 0;
  std::uint32_t frames = 0;
  ObjectOfFrames object{};
  SampleValue self{};
  SampleValue total{};
};

// The keys of one level: the first one, or both.
struct Level {
  std::span<const GroupKey> keys;
  std::size_t label_keys = 0;
  GroupTable labels;
  GroupTable frames;

  [[nodiscard]] const Group& group_of(const GroupSum& sum) const {
    return is_of_frames(keys.back()) ? frames.groups[sum.frames] : labels.groups[sum.labels];
  }
};

Level level_of(const Samples& samples, std::span<const GroupKey> keys, NameForm names) {
  std::vector<GroupKey> of_labels;
  std::vector<GroupKey> of_frames;
  for (const GroupKey key : keys) (is_of_frames(key) ? of_frames : of_labels).push_back(key);
  return {.keys = keys,
          .label_keys = of_labels.size(),
          .labels = group_labels(samples, of_labels),
          .frames = group_frames(samples, of_frames, names)};
}

// Adds up the rows of one group of labels after the other. A frame's value waits at its step of the
// path until a stack comes that does not have the step, so that of neighbours only the inner frames
// that differ are added.
class GroupAdder {
 public:
  GroupAdder(const Selection& selection, const GroupTable& frames)
      : samples_(selection.samples()),
        stacks_(selection),
        of_(frames.of),
        groups_(frames.groups.size()) {}

  // A row without frames is in no group of frames.
  void add(const Samples::Row& row) {
    if (!stacks_.read(row)) return;
    shown_.add(row.value);
    if (!of_.empty()) return add_to_frames(row.value);
    if (groups_.empty()) return;
    touch(0);
    groups_[0].sum.self.add(row.value);
    groups_[0].sum.total.add(row.value);
  }

  // Appends the sums since the last call.
  void take(std::uint32_t labels, std::vector<GroupSum>& sums) {
    while (!path_.empty()) leave();
    for (const std::uint32_t group : touched_) {
      GroupSum sum = std::exchange(groups_[group].sum, GroupSum());
      sum.labels = labels;
      sum.frames = group;
      sums.push_back(sum);
    }
    touched_.clear();
    ++turn_;
  }

  [[nodiscard]] const SampleValue& shown() const { return shown_; }

 private:
  struct OneGroup {
    GroupSum sum;
    std::uint32_t turn = 0;   // the last one in which it was touched
    bool is_on_path = false;  // a frame that is there several times counts once
  };
  struct Step {
    std::uint32_t group = 0;
    bool is_first = false;  // of its group on the path
    SampleValue waiting{};
  };

  void add_to_frames(const SampleValue& value) {
    while (path_.size() > stacks_.shared()) leave();
    for (const std::uint32_t frame : stacks_.frames().subspan(path_.size())) enter(frame);
    if (path_.empty()) return;
    path_.back().waiting.add(value);
    groups_[path_.back().group].sum.self.add(value);
  }

  void enter(std::uint32_t frame) {
    const std::uint32_t number = of_[frame];
    touch(number);
    OneGroup& group = groups_[number];
    group.sum.object.add(samples_, frame);
    path_.push_back({.group = number, .is_first = !std::exchange(group.is_on_path, true)});
  }

  void leave() {
    const Step step = path_.back();
    path_.pop_back();
    if (!path_.empty()) path_.back().waiting.add(step.waiting);
    if (!step.is_first) return;
    groups_[step.group].sum.total.add(step.waiting);
    groups_[step.group].is_on_path = false;
  }

  void touch(std::uint32_t number) {
    if (std::exchange(groups_[number].turn, turn_) != turn_) touched_.push_back(number);
  }

  const Samples& samples_;
  SelectedStacks stacks_;
  std::span<const std::uint32_t> of_;  // empty: one group for all, or no frame
  std::vector<OneGroup> groups_;
  std::vector<std::uint32_t> touched_;
  std::vector<Step> path_;  // from the outermost frame on
  std::uint32_t turn_ = 1;
  SampleValue shown_;
};

// The numbers of the rows, those of one group of labels after each other.
std::vector<std::uint32_t> order_by_group(const Samples& samples, const GroupTable& labels) {
  std::vector<std::uint32_t> order(samples.rows().size());
  std::iota(order.begin(), order.end(), 0U);
  if (labels.of.empty()) return order;
  const auto group_of = [&](std::uint32_t row) { return labels.of[samples.rows()[row].labels]; };
  if (!std::ranges::is_sorted(order, {}, group_of)) std::ranges::stable_sort(order, {}, group_of);
  return order;
}

std::vector<GroupSum> sums_of(const Selection& selection, const Level& level, SampleValue& shown) {
  const Samples& samples = selection.samples();
  GroupAdder adder(selection, level.frames);
  std::vector<GroupSum> sums;
  std::uint32_t current = 0;
  for (const std::uint32_t number : order_by_group(samples, level.labels)) {
    const Samples::Row& row = samples.rows()[number];
    const std::uint32_t group = level.labels.of.empty() ? 0 : level.labels.of[row.labels];
    if (group != current) adder.take(std::exchange(current, group), sums);
    adder.add(row);
  }
  adder.take(current, sums);
  shown = adder.shown();
  return sums;
}

ReportRow row_of(const Samples& samples, const Level& level, const GroupSum& sum) {
  ReportRow row{.group = level.group_of(sum), .self = sum.self, .total = sum.total, .rows = {}};
  if (has_object(level.keys.back())) row.group.object = sum.object.text(samples);
  return row;
}

void sort_rows(std::vector<ReportRow>& rows) {
  std::ranges::sort(rows, [](const ReportRow& a, const ReportRow& b) {
    const auto key = [](const ReportRow& row) {
      return std::tuple(-row.self.cpu_ns, -row.self.samples, -row.total.cpu_ns, -row.total.samples);
    };
    return key(a) != key(b) ? key(a) < key(b) : a.group.name < b.group.name;
  });
}

using Place = std::pair<std::uint32_t, std::uint32_t>;  // groups of labels and frames

// Where the row of the first key stands that a sum of both keys belongs to.
Place parent_of(const Level& first, const Level& both, const GroupSum& sum) {
  const bool adds_label = first.label_keys != both.label_keys;
  return {adds_label ? both.labels.groups[sum.labels].parent : sum.labels,
          adds_label ? sum.frames : both.frames.groups[sum.frames].parent};
}

}  // namespace

double ViewScope::share_of(const SampleValue& value) const {
  if (has_cpu_time)
    return percent_of(static_cast<double>(value.cpu_ns), static_cast<double>(all.cpu_ns));
  return percent_of(static_cast<double>(value.samples), static_cast<double>(all.samples));
}

double ViewScope::cpu_percent_of(const SampleValue& value) const {
  return percent_of(static_cast<double>(value.cpu_ns), static_cast<double>(duration_ns));
}

ViewScope scope_of(const Samples& samples) {
  return {.event = samples.event,
          .has_cpu_time = samples.has_cpu_time,
          .time_kind = samples.time_kind,
          .has_counts = samples.has_counts,
          .duration_ns = samples.duration_ns,
          .all = samples.sum(),
          .shown = {},
          .idle = samples.idle};
}

std::int64_t block_ns(const SampleValue& value) {
  return value.samples > 0 ? value.cpu_ns / value.samples : 0;
}

std::int64_t longest_block_ns(const SampleValue& value) {
  return value.longest_ns > 0 ? value.longest_ns : block_ns(value);
}

void sort_by_longest_block(Report& report) {
  report.is_by_longest_block = true;
  // Rows of equal ones keep their order: so a function stands above its callers, whose own time is
  // less.
  const auto longest = [](const ReportRow& row) { return longest_block_ns(row.total); };
  std::ranges::stable_sort(report.rows, std::ranges::greater(), longest);
  for (ReportRow& row : report.rows) {
    std::ranges::stable_sort(row.rows, std::ranges::greater(), longest);
  }
}

Report make_report(const Selection& selection, const std::vector<GroupKey>& by, NameForm names) {
  const Samples& samples = selection.samples();
  Report report{.scope = scope_of(samples), .by = by, .rows = {}};
  const Level first = level_of(samples, std::span(by).first(1), names);
  std::map<Place, std::size_t> places;
  for (const GroupSum& sum : sums_of(selection, first, report.scope.shown)) {
    places.emplace(Place(sum.labels, sum.frames), report.rows.size());
    report.rows.push_back(row_of(samples, first, sum));
  }
  if (by.size() > 1) {
    const Level both = level_of(samples, by, names);
    for (const GroupSum& sum : sums_of(selection, both, report.scope.shown)) {
      const std::size_t place = places.at(parent_of(first, both, sum));
      report.rows[place].rows.push_back(row_of(samples, both, sum));
    }
    for (ReportRow& row : report.rows) sort_rows(row.rows);
  }
  sort_rows(report.rows);
  return report;
}

}  // namespace profd
