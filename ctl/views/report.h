// The CPU time of each group of samples, or the time of its blocks: the flat report.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/views/group_key.h"
#include "ctl/views/samples.h"
#include "ctl/views/selection.h"

namespace profd {

// What the numbers of a view are parts of.
struct ViewScope {
  std::string event;
  bool has_cpu_time = false;
  TimeKind time_kind = TimeKind::kCpu;
  bool has_counts = true;        // as Samples has it
  std::int64_t duration_ns = 0;  // 0: unknown
  SampleValue all;               // without --focus, --ignore and --hide
  SampleValue shown;
  SampleValue idle;  // in neither of them (Samples::idle)

  // Percent of all samples, by their time where that is known.
  [[nodiscard]] double share_of(const SampleValue& value) const;
  // Many threads are off the CPU at a time, so that their time is in no relation to a CPU.
  [[nodiscard]] bool has_cpu_percent() const {
    return has_cpu_time && !is_of_blocks(time_kind) && duration_ns > 0;
  }
  // Whether the times of values have a mean by block.
  [[nodiscard]] bool has_block_times() const { return is_of_blocks(time_kind) && has_counts; }
  // Percent of one CPU.
  [[nodiscard]] double cpu_percent_of(const SampleValue& value) const;
};

// `shown` is not set.
[[nodiscard]] ViewScope scope_of(const Samples& samples);

struct ReportRow {
  Group group;
  SampleValue self;               // of the innermost frame; of labels, the same as `total`
  SampleValue total;              // a frame that is there several times counts once
  std::vector<ReportRow> rows{};  // by the second key
};

struct Report {
  ViewScope scope;
  std::vector<GroupKey> by;
  std::vector<ReportRow> rows;  // by `self`, then `total`, then name; or sort_by_longest_block()
  bool is_by_longest_block = false;

  [[nodiscard]] bool is_of_frames() const { return profd::is_of_frames(by.back()); }
};

// The mean time of a block, in nanoseconds. 0: there are none.
[[nodiscard]] std::int64_t block_ns(const SampleValue& value);

// The time of the longest block, in nanoseconds; the mean where that is not known, as in files of
// versions that did not write it. 0: there are none.
[[nodiscard]] std::int64_t longest_block_ns(const SampleValue& value);

// Sorts the rows of both keys by the longest block in `total`.
void sort_by_longest_block(Report& report);

// `by` has one or two keys.
[[nodiscard]] Report make_report(const Selection& selection, const std::vector<GroupKey>& by,
                                 NameForm names);

}  // namespace profd
