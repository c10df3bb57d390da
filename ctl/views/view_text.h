// Views as text for a terminal or a pipe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ctl/output/terminal.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/diff.h"
#include "ctl/views/report.h"

namespace profd {

struct ViewLimits {
  std::size_t rows = 20;  // of a list
  std::size_t inner = 5;  // of the second key, for each row of the first
  // Of a tree. Its nodes have at least `min_share` percent of the samples that are in it.
  std::size_t nodes = 40;
  double min_share = 0.5;
};

// "1.25 s", "59.4 s", "3 min 20 s"
[[nodiscard]] std::string cpu_time_text(std::int64_t cpu_ns);

// "20.5 us", "3.20 ms", "3.00 s": of one block.
[[nodiscard]] std::string block_time_text(std::int64_t ns);

// "12 samples", or blocks.
[[nodiscard]] std::string count_text(const ViewScope& scope, const SampleValue& value);

// "12 samples"; the time of blocks whose number is not known.
[[nodiscard]] std::string size_text(const ViewScope& scope, const SampleValue& value);

// Of a row: percent of one CPU, the time of blocks and CPU time where the duration is not known, or
// samples; and the title of such a column.
[[nodiscard]] std::string amount_text(const ViewScope& scope, const SampleValue& value);
[[nodiscard]] std::string amount_title(const ViewScope& scope);

// The colour of the name of a function, by the kind of its code.
[[nodiscard]] TextColor color_of(const Group& group);

// "1 min: 5940 samples, 59.4 s of CPU time (99.0 % of one CPU)", "1 min: 12 blocks, 3.50 s off the
// CPU", with the share that is shown where that is not all.
[[nodiscard]] std::string scope_text(const ViewScope& scope);

// "idle: 32 min 20 s, as 46 threads all the time", and with the option that shows them; empty:
// nothing is idle.
[[nodiscard]] std::string idle_sum_text(const ViewScope& scope);
[[nodiscard]] std::string idle_text(const ViewScope& scope);

[[nodiscard]] std::string report_text(const Report& report, const ViewLimits& limits,
                                      const Screen& screen);
// `tree` is pruned.
[[nodiscard]] std::string tree_text(const CallTree& tree, const Screen& screen);
// What both sides are, printable.
struct DiffTitles {
  std::string base;
  std::string now;
};
[[nodiscard]] std::string diff_text(const Diff& diff, const DiffTitles& titles,
                                    const ViewLimits& limits, const Screen& screen);

}  // namespace profd
