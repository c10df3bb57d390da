// Traces that a test builds, and call stacks as text.

#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "formats/xray/log.h"
#include "formats/xray/stacks.h"
#include "tests/formats/xray/fdr_writer.h"

namespace profd::xray {

inline ByteSource source_file_of(std::string bytes) {
  const auto held = std::make_shared<std::string>(std::move(bytes));
  return {held->size(), [held](std::uint64_t offset, std::span<char> to) -> std::size_t {
            if (offset >= held->size()) return 0;
            const std::size_t got = std::min<std::size_t>(to.size(), held->size() - offset);
            std::memcpy(to.data(), held->data() + offset, got);
            return got;
          }};
}

struct StackSums {
  std::uint64_t calls = 0;
  std::uint64_t self = 0;

  friend bool operator==(const StackSums&, const StackSums&) = default;
  friend std::ostream& operator<<(std::ostream& out, const StackSums& sums) {
    return out << sums.calls << " calls, " << sums.self << " ticks";
  }
};
using Stacked = std::map<std::string, StackSums>;

// Sorted by "1;2;3", the outermost function first. Stacks with neither calls nor time are left out.
inline Stacked stacked(const CallTree& tree) {
  Stacked all;
  for (const CallTree::Node& node : tree.nodes()) {
    if (node.parent == CallTree::kNone || node.calls + node.self_ticks == 0) continue;
    std::string path = std::to_string(node.function());
    for (auto at = node.parent; tree.nodes()[at].parent != CallTree::kNone;
         at = tree.nodes()[at].parent) {
      path = std::to_string(tree.nodes()[at].function()) + ";" + path;
    }
    StackSums& sums = all[path];
    sums.calls += node.calls;
    sums.self += node.self_ticks;
  }
  return all;
}

struct ReadTrace {
  Stacked stacks;
  Report report;
};

inline ReadTrace read_traces(const std::vector<std::string>& traces) {
  Log log;
  for (const std::string& trace : traces) {
    if (auto added = log.add(source_file_of(trace)); !added) return {};
  }
  log.sort();
  Stacks stacks({});
  log.read(stacks);
  const Measured measured = stacks.finish();
  ReadTrace read{stacked(measured.tree), log.report()};
  read.report.add(measured.report);
  return read;
}

inline Header header_of(const Format& format, std::uint64_t buffer_bytes = 4096) {
  return {format, true, true, 1'000'000'000, buffer_bytes};
}

// The base of tests of all versions in both byte orders. Each file derives a class of its own.
class FormatTest : public ::testing::TestWithParam<std::tuple<int, std::endian>> {
 protected:
  Format format_{static_cast<std::uint16_t>(std::get<0>(GetParam())), std::get<1>(GetParam())};
};

inline auto every_format() {
  return ::testing::Combine(::testing::Values(1, 2, 3, 4, 5),
                            ::testing::Values(std::endian::little, std::endian::big));
}

inline std::string name_of_format(
    const ::testing::TestParamInfo<std::tuple<int, std::endian>>& test) {
  return "version" + std::to_string(std::get<0>(test.param)) +
         (std::get<1>(test.param) == std::endian::big ? "big" : "little");
}

}  // namespace profd::xray
