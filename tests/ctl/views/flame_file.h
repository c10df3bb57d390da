// What a file of `profctl flame` has in it, read without the code that wrote it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>

#include "tests/ctl/views/pprof_traces.h"

namespace profd::test {

inline std::string text_between(const std::string& text, const std::string& before,
                                const std::string& after) {
  const std::size_t start = text.find(before);
  if (start == std::string::npos) return {};
  const std::size_t begin = start + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

inline boost::json::value data_of_html(const std::string& html) {
  return boost::json::parse(text_between(html, "id=\"data\">", "</script>"));
}

// The total of each path from the outermost function on, added up from the samples of the nodes.
inline std::map<std::string, std::int64_t> paths_of_data(const boost::json::value& data) {
  const auto column = [&](const char* name) {
    return boost::json::value_to<std::vector<std::int64_t>>(data.at("nodes").at(name));
  };
  const auto names =
      boost::json::value_to<std::vector<std::string>>(data.at("functions").at("name"));
  const auto depths = column("depth");
  const auto functions = column("fn");
  const auto self = column("self");
  const auto rest = column("rest");
  std::map<std::string, std::int64_t> paths;
  std::vector<std::string> path;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const auto depth = static_cast<std::size_t>(depths[i]);
    path.resize(depth);
    path.push_back((depth == 0 ? "" : path[depth - 1]) + "/" +
                   names.at(static_cast<std::size_t>(functions[i])));
    for (const std::string& outer : path) paths[outer] += self[i] + rest[i];
  }
  return paths;
}

// The stacks with the samples that end in them, in the form of pprof's traces, without labels.
inline std::vector<Trace> traces_of_data(const boost::json::value& data) {
  const boost::json::value& nodes = data.at("nodes");
  const auto names =
      boost::json::value_to<std::vector<std::string>>(data.at("functions").at("name"));
  const auto functions = boost::json::value_to<std::vector<std::size_t>>(nodes.at("fn"));
  const auto depths = boost::json::value_to<std::vector<std::size_t>>(nodes.at("depth"));
  const auto self = boost::json::value_to<std::vector<std::int64_t>>(nodes.at("self"));
  std::vector<Trace> traces;
  std::vector<std::string> path;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    path.resize(depths[i]);
    path.push_back(names.at(functions.at(i)));
    if (self.at(i) == 0) continue;
    traces.push_back({.labels = {}, .samples = self[i], .stack = {path.rbegin(), path.rend()}});
  }
  return traces;
}

}  // namespace profd::test
