// What changed between two sources: the groups by how much their share changed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/views/report.h"

namespace profd {

enum class DiffMeasure : std::uint8_t {
  kShare,  // percent of all samples of each side: independent of load and length
  kCpu,    // percent of one CPU, of blocks of one thread: needs the times and durations
};

struct DiffSide {
  SampleValue self{};
  SampleValue total{};
  double self_percent = 0;
  double total_percent = 0;
};

struct DiffRow {
  Group group;  // its name has both keys if there are two: "nginx.service: memcpy"
  DiffSide base;
  DiffSide now;

  [[nodiscard]] bool is_new() const { return base.total == SampleValue(); }
  [[nodiscard]] bool is_gone() const { return now.total == SampleValue(); }
  // In percentage points, of `self`.
  [[nodiscard]] double change() const { return now.self_percent - base.self_percent; }
  [[nodiscard]] double total_change() const { return now.total_percent - base.total_percent; }
};

struct Diff {
  ViewScope base;
  ViewScope now;
  std::vector<GroupKey> by;
  DiffMeasure measure = DiffMeasure::kShare;
  std::vector<DiffRow> rows;  // the largest change first

  // Rows whose `self` changed by more than this.
  [[nodiscard]] std::size_t count_beyond(double percentage_points) const;
};

// Both have the same keys. kInvalidArgument: kCpu, and a side has no times or duration.
[[nodiscard]] Result<Diff> make_diff(const Report& base, const Report& now, DiffMeasure measure);

}  // namespace profd
