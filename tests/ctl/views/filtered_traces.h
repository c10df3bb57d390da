// What Go's pprof leaves of a profile by its own -focus, -ignore and -hide, and what a test chooses
// by label: the oracle of exports of a filtered view.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/ctl/views/pprof_traces.h"
#include "tests/formats/readers.h"

namespace profd::test {

// The same filter for profctl and for pprof.
struct FilterCase {
  std::vector<std::string> options;  // of profctl: "--focus", "work_1$"
  std::string fields;                // of a request of the page: "&focus=work_1$"
  std::string of_pprof;              // "-focus='work_1$'"
};

// Each leaves some of the samples of a RandomProfile.
inline std::vector<FilterCase> filter_cases() {
  return {{{"--focus", "work_1$"}, "&focus=work_1$", "-focus='work_1$'"},
          {{"--ignore", "work_1"}, "&ignore=work_1", "-ignore=work_1"},
          {{"--hide", "work_2"}, "&hide=work_2", "-hide=work_2"},
          {{"--hide", "kallsyms"}, "&hide=kallsyms", "-hide=kallsyms"},
          {{"--focus", "file3", "--ignore", "lib4.so", "--hide", "work_5"},
           "&focus=file3&ignore=lib4.so&hide=work_5",
           "-focus=file3 -ignore=lib4.so -hide=work_5"}};
}

inline std::vector<Trace> traces_with(const std::filesystem::path& profile,
                                      const std::string& of_pprof) {
  return read_traces(output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                               " -symbolize=none -sample_index=samples " + of_pprof + " -traces " +
                               profile.string()));
}

inline std::vector<Trace> traces_of_label(std::vector<Trace> traces, const std::string& key,
                                          const std::vector<std::string>& values) {
  std::erase_if(traces, [&](const Trace& trace) {
    const auto label = trace.labels.find(key);
    return label == trace.labels.end() || std::ranges::find(values, label->second) == values.end();
  });
  return traces;
}

inline std::int64_t sum_of_traces(const std::vector<Trace>& traces) {
  std::int64_t sum = 0;
  for (const Trace& trace : traces) sum += trace.samples;
  return sum;
}

// The sums of self and total of both pprofs' text reports.
inline TraceSums sums_of_report(const Report& report) {
  TraceSums sums;
  for (const auto& [name, row] : report.rows) {
    sums[without_inline_mark(name)] = {.self = static_cast<std::int64_t>(row.flat),
                                       .total = static_cast<std::int64_t>(row.cumulative)};
  }
  return sums;
}

// Each stack as folded stacks have it, "comm;main;work", with the samples of its line.
inline std::map<std::string, std::int64_t> folded_lines(const std::vector<Trace>& traces) {
  std::map<std::string, std::int64_t> lines;
  for (const Trace& trace : traces) {
    std::string line = trace.labels.at("comm");
    for (auto name = trace.stack.rbegin(); name != trace.stack.rend(); ++name) line += ";" + *name;
    lines[line] += trace.samples;
  }
  return lines;
}

}  // namespace profd::test
