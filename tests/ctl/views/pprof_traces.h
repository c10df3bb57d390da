// The stacks of a profile as `pprof -traces` prints them: the samples of an independent reader, to
// add up by other code than that under test.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <gtest/gtest.h>

#include "tests/formats/readers.h"

namespace profd::test {

struct Trace {
  std::map<std::string, std::string> labels;
  std::int64_t samples = 0;
  std::vector<std::string> stack;  // the leaf first; inlined functions are frames of their own
};

struct TraceSum {
  std::int64_t self = 0;
  std::int64_t total = 0;

  friend bool operator==(const TraceSum&, const TraceSum&) = default;
};
using TraceSums = std::map<std::string, TraceSum>;

inline std::string trimmed(const std::string& text) {
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string::npos) return "";
  return text.substr(start, text.find_last_not_of(' ') - start + 1);
}

inline std::string without_inline_mark(std::string name) {
  for (const std::string mark : {" (inline)", " (partial-inline)"}) {
    if (name.ends_with(mark)) name.resize(name.size() - mark.size());
  }
  return name;
}

// The lines between two rules: "key:  value", then "12   leaf", then "caller".
inline std::vector<Trace> read_traces(const std::string& text) {
  std::vector<Trace> traces;
  std::istringstream lines(text);
  bool begun = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("-----")) {
      if (traces.empty() || !traces.back().stack.empty()) traces.emplace_back();
      begun = true;
      continue;
    }
    if (!begun) continue;
    Trace& trace = traces.back();
    const std::string bare = trimmed(line);
    const std::size_t colon = bare.find(":  ");
    if (trace.stack.empty() && colon != std::string::npos && bare.find(' ') > colon) {
      trace.labels[bare.substr(0, colon)] = trimmed(bare.substr(colon + 1));
    } else if (trace.stack.empty()) {
      std::size_t digits = 0;
      trace.samples = std::stoll(bare, &digits);
      trace.stack.push_back(without_inline_mark(trimmed(bare.substr(digits))));
    } else {
      trace.stack.push_back(without_inline_mark(bare));
    }
  }
  if (!traces.empty() && traces.back().stack.empty()) traces.pop_back();
  return traces;
}

inline std::vector<Trace> traces_of(const std::filesystem::path& profile) {
  return read_traces(output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                               " -symbolize=none -sample_index=samples -traces " +
                               profile.string()));
}

// By function.
inline TraceSums function_sums(const std::vector<Trace>& traces) {
  TraceSums sums;
  for (const Trace& trace : traces) {
    sums[trace.stack.front()].self += trace.samples;
    for (const std::string& name : std::set(trace.stack.begin(), trace.stack.end())) {
      sums[name].total += trace.samples;
    }
  }
  return sums;
}

// The tree of whole stacks: by the path from the outermost function on.
inline std::map<std::string, std::int64_t> paths_of(const std::vector<Trace>& traces) {
  std::map<std::string, std::int64_t> paths;
  for (const Trace& trace : traces) {
    std::string path;
    for (auto name = trace.stack.rbegin(); name != trace.stack.rend(); ++name) {
      path += "/" + *name;
      paths[path] += trace.samples;
    }
  }
  return paths;
}

// Of the rows of 'report --json', in the same form.
inline TraceSums row_sums(const boost::json::value& rows) {
  TraceSums sums;
  for (const boost::json::value& row : rows.as_array()) {
    sums[boost::json::value_to<std::string>(row.at("name"))] = {
        .self = row.at("self").at("samples").as_int64(),
        .total = row.at("total").at("samples").as_int64()};
  }
  return sums;
}

inline std::map<std::string, std::int64_t> label_sums(const std::vector<Trace>& traces,
                                                      const std::string& key) {
  std::map<std::string, std::int64_t> sums;
  for (const Trace& trace : traces) {
    const auto label = trace.labels.find(key);
    sums[label == trace.labels.end() ? "" : label->second] += trace.samples;
  }
  return sums;
}

}  // namespace profd::test
