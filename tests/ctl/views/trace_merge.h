// The rows of a report as an independent merge has them: the traces of pprof (pprof_traces.h),
// added up by labels and by parts of frames.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>

#include "tests/ctl/views/pprof_traces.h"

namespace profd::test {

struct MergedRow {
  TraceSum sum;
  TraceSums inner;  // by the second key; empty: there is none

  friend bool operator==(const MergedRow&, const MergedRow&) = default;
};
using MergedRows = std::map<std::string, MergedRow>;

inline std::string label_or(const Trace& trace, const std::string& key,
                            const std::string& otherwise) {
  const auto label = trace.labels.find(key);
  return label == trace.labels.end() || label->second == "-" ? otherwise : label->second;
}

inline std::string thread_of(const Trace& trace) {
  const std::string name = label_or(trace, "thread", "");
  const std::string tid = label_or(trace, "tid", "");
  if (tid.empty()) return name.empty() ? "(unknown thread)" : name;
  return name.empty() ? tid : name + " " + tid;
}

// Of a frame in the form of `pprof -lines`: "function file:line".
inline std::string part_of_frame(const std::string& key, const std::string& frame) {
  const std::size_t blank = frame.find(' ');
  if (key == "line") return frame;
  if (key == "function") return frame.substr(0, blank);
  return frame.substr(blank + 1, frame.rfind(':') - blank - 1);
}

// What profctl calls the value of a key.
inline std::string value_of_key(const std::string& key, const Trace& trace,
                                const std::string& frame) {
  if (key == "process") return label_or(trace, "comm", "?") + " " + label_or(trace, "pid", "?");
  if (key == "command") return label_or(trace, "comm", "(unknown command)");
  if (key == "unit") return label_or(trace, key, "(no unit)");
  if (key == "container") return label_or(trace, key, "(no container)");
  if (key == "user") return label_or(trace, key, "(unknown user)");
  if (key == "runtime") return label_or(trace, key, "native");
  return key == "thread" ? thread_of(trace) : part_of_frame(key, frame);
}

// `keys` has one or two. For `file` and `line` the traces are those of `pprof -lines`.
inline MergedRows merged_rows(const std::vector<Trace>& traces,
                              const std::vector<std::string>& keys) {
  MergedRows rows;
  for (const Trace& trace : traces) {
    const auto pair_of = [&](const std::string& frame) {
      return std::pair(value_of_key(keys.front(), trace, frame),
                       keys.size() > 1 ? value_of_key(keys.back(), trace, frame) : "");
    };
    std::set<std::string> outer;
    std::set<std::pair<std::string, std::string>> pairs;
    for (const std::string& frame : trace.stack) {
      const auto pair = pair_of(frame);
      outer.insert(pair.first);
      pairs.insert(pair);
    }
    const auto leaf = pair_of(trace.stack.front());
    rows[leaf.first].sum.self += trace.samples;
    for (const std::string& name : outer) rows[name].sum.total += trace.samples;
    if (keys.size() < 2) continue;
    rows[leaf.first].inner[leaf.second].self += trace.samples;
    for (const auto& [first, second] : pairs) rows[first].inner[second].total += trace.samples;
  }
  return rows;
}

// The rows of 'report --json', in the same form.
inline MergedRows rows_of_report(const boost::json::value& report) {
  MergedRows found;
  for (const boost::json::value& row : report.at("rows").as_array()) {
    MergedRow& to = found[boost::json::value_to<std::string>(row.at("name"))];
    to.sum = {.self = row.at("self").at("samples").as_int64(),
              .total = row.at("total").at("samples").as_int64()};
    if (row.as_object().contains("rows")) to.inner = row_sums(row.at("rows"));
  }
  return found;
}

}  // namespace profd::test
