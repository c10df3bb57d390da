// Reports, trees and differences by every key against an independent merge of the same stacks:
// what `pprof -traces` prints of the file, added up by the labels and the frames of each trace.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/trace_merge.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace json = boost::json;
using test::Trace;

// Processes that differ in each label, and of which some lack it; functions of which each fifth has
// no source.
class LabelledHost {
 public:
  static constexpr std::int64_t kPeriodNs = 10'101'010;

  explicit LabelledHost(std::uint32_t seed)
      : random_(seed), profile_({{"samples", "count"}, {"cpu", "nanoseconds"}}) {
    profile_.default_sample_type = "cpu";
    profile_.period_type = {"cpu", "nanoseconds"};
    profile_.period = kPeriodNs;
    profile_.duration_ns = 60'000'000'000;
    profile_.add_mapping({.file = profile_.add_text("[all processes of host]")});
    locations_.reserve(kFunctions * 3);
    for (std::size_t i = 0; i < kFunctions * 3; ++i) locations_.push_back(add_location(i));
  }

  void add(std::size_t stacks) {
    for (std::size_t i = 0; i < stacks; ++i) {
      std::vector<std::uint32_t> stack;
      const std::size_t depth = 1 + random_() % 12;
      while (stack.size() < depth) {
        stack.push_back(locations_[random_() % locations_.size()]);
        if (random_() % 5 == 0) stack.push_back(stack.back());  // recursion
      }
      const auto count = static_cast<std::int64_t>(1 + random_() % 9);
      const std::vector<std::int64_t> values{count, count * kPeriodNs};
      const std::size_t process = random_() % 8;
      const std::uint32_t labels = add_labels(process, random_() % 3);
      profile_.add_sample({.labels = labels, .stack = profile_.add_stack(stack)}, values);
    }
  }

  [[nodiscard]] const PprofProfile& profile() const { return profile_; }

  // The file with the code of a function.
  static std::string object_of(std::size_t function) {
    return function % 9 == 4 ? "[kernel.kallsyms]" : "lib" + std::to_string(function % 4) + ".so";
  }

 private:
  static constexpr std::size_t kFunctions = 30;

  std::uint32_t add_location(std::size_t number) {
    const std::size_t function = number % kFunctions;
    const std::string object = object_of(function);
    const bool is_kernel = object.starts_with('[');
    const std::uint32_t mapping = profile_.add_mapping(
        {.start = 0x1000,
         .limit = 0x900000,
         .file = profile_.add_text(is_kernel ? object : "/usr/lib/" + object),
         .build_id = profile_.add_text(is_kernel ? "20" : "1" + object.substr(3, 1))});
    std::vector<PprofLine> lines{line_of(function, number)};
    // Inlined into a function that has a source.
    if (number % 3 == 0) lines.push_back(line_of(function - function % 5, number + 500));
    return profile_.add_location({.address = 0x1000 + number * 16, .mapping = mapping}, lines);
  }

  PprofLine line_of(std::size_t function, std::size_t number) {
    const bool is_bare = function % 5 == 2;
    const std::uint32_t name =
        profile_.add_text((is_bare ? "bare_" : "work_") + std::to_string(function));
    const std::string file = is_bare ? "" : "/src/file" + std::to_string(function % 6) + ".cc";
    return {.function = profile_.add_function(
                {.name = name, .system_name = name, .file = profile_.add_text(file)}),
            .line = is_bare ? 0 : static_cast<std::int64_t>(10 + number)};
  }

  std::uint32_t add_labels(std::size_t process, std::size_t thread) {
    const auto text = [this](std::string_view key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    const auto number = [this](std::string_view key, std::size_t value) {
      return PprofLabel{.key = profile_.add_text(key), .number = static_cast<std::int64_t>(value)};
    };
    const std::vector<std::string> runtimes{"Node.js", "-", "OpenJDK"};
    const std::string kind = std::to_string(process % 3);
    std::vector<PprofLabel> labels{
        number("pid", 100 + process),
        text("comm", "program" + kind),
        text("unit", process == 5 ? "-" : "unit" + kind + ".service"),
        text("container", process % 4 == 0 ? "-" : "c" + std::to_string(process % 2)),
        text("user", process % 2 == 0 ? "root" : "www-data"),
        text("runtime", runtimes[process % 3])};
    // A thread with both, with a number or a name alone, and with neither.
    if (process < 6) labels.push_back(number("tid", 1000 + 10 * process + thread));
    const bool has_name = process != 4 && process != 6;
    if (has_name) labels.push_back(text("thread", "worker-" + std::to_string(thread)));
    return profile_.add_labels(std::move(labels));
  }

  std::mt19937 random_;
  PprofProfile profile_;
  std::vector<std::uint32_t> locations_;
};

class GoldenTest : public testing::Test {
 protected:
  GoldenTest() { host_.add(400); }

  std::filesystem::path write(const PprofProfile& profile, const std::string& name = "a.pb.gz") {
    return scratch_.write(name, encode_pprof_gzip(profile));
  }
  json::value json_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--names", "full", "--json"});
    const Ran ran = run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out.empty() ? "null" : ran.out);
  }

  static std::vector<Trace> traces_at(const std::filesystem::path& file,
                                      const std::string& granularity) {
    return test::read_traces(test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                                             " -symbolize=none -sample_index=samples -" +
                                             granularity + " -traces " + file.string()));
  }
  // Each frame as "function file:line"; where there is no source, with the file of the code.
  static std::vector<Trace> lines_of(const std::filesystem::path& file) {
    std::vector<Trace> traces = traces_at(file, "lines");
    for (Trace& trace : traces) {
      for (std::string& frame : trace.stack) {
        if (frame.starts_with("bare_")) frame += " " + file_without_source(frame.substr(5));
      }
    }
    return traces;
  }
  static std::string file_without_source(const std::string& function) {
    const std::string object = LabelledHost::object_of(std::stoul(function));
    return object.starts_with('[') ? object : "[" + object + "]";
  }
  static std::string text_of(const std::vector<std::string>& keys) {
    return keys.size() == 1 ? keys.front() : keys.front() + "," + keys.back();
  }
  static std::int64_t sum_of_traces(const std::vector<Trace>& traces) {
    std::int64_t sum = 0;
    for (const Trace& trace : traces) sum += trace.samples;
    return sum;
  }

  const std::vector<std::string> keys_{"process", "command", "unit", "container", "user",
                                       "thread",  "runtime", "file", "line",      "function"};
  test::ScratchDirectory scratch_;
  LabelledHost host_{7};
};

TEST_F(GoldenTest, EachKeyHasTheSumsOfTheTraces) {
  const auto file = write(host_.profile());
  const auto traces = lines_of(file);
  ASSERT_FALSE(traces.empty());
  const auto all = static_cast<double>(sum_of_traces(traces));
  for (const std::string& key : keys_) {
    const json::value report = json_of({"report", file, "--by", key});
    EXPECT_EQ(test::rows_of_report(report), test::merged_rows(traces, {key})) << key;
    for (const json::value& row : report.at("rows").as_array()) {
      const std::int64_t self = row.at("self").at("samples").as_int64();
      EXPECT_EQ(row.at("self").at("cpu_ns").as_int64(), self * LabelledHost::kPeriodNs) << key;
      EXPECT_NEAR(row.at("self_percent").to_number<double>(), 100 * static_cast<double>(self) / all,
                  1e-9)
          << key;
    }
  }
}

TEST_F(GoldenTest, EachPairOfKeysHasTheSumsOfTheTraces) {
  const auto file = write(host_.profile());
  const auto traces = lines_of(file);
  for (const std::string& first : keys_) {
    for (const std::string& second : keys_) {
      if (first == second) continue;
      const json::value report = json_of({"report", file, "--by", text_of({first, second})});
      EXPECT_EQ(test::rows_of_report(report), test::merged_rows(traces, {first, second}))
          << first << "," << second;
    }
  }
}

// By pprof's own grouping, too: what it calls a file is what profctl calls one.
TEST_F(GoldenTest, FilesAndFunctionsAreThoseThatPprofGroupsBy) {
  const auto file = write(host_.profile());
  auto files = traces_at(file, "files");
  for (Trace& trace : files) {
    for (std::string& name : trace.stack) {
      if (name == "[[kernel.kallsyms]]") name = "[kernel.kallsyms]";
    }
  }
  EXPECT_EQ(test::row_sums(json_of({"report", file, "--by", "file"}).at("rows")),
            test::function_sums(files));
  EXPECT_EQ(test::row_sums(json_of({"report", file, "--by", "line"}).at("rows")),
            test::function_sums(lines_of(file)));
  EXPECT_EQ(test::row_sums(json_of({"report", file}).at("rows")),
            test::function_sums(test::traces_of(file)));
}

TEST_F(GoldenTest, LabelsStandAboveTheTreeOfTheirTraces) {
  const auto file = write(host_.profile());
  for (const std::vector<std::string>& keys :
       std::vector<std::vector<std::string>>{{"unit"}, {"thread"}, {"command", "process"}}) {
    std::vector<Trace> traces = test::traces_of(file);
    for (Trace& trace : traces) {
      std::vector<std::string> labels;
      labels.reserve(keys.size());
      for (const std::string& key : keys) labels.push_back(test::value_of_key(key, trace, ""));
      trace.stack.insert(trace.stack.end(), labels.rbegin(), labels.rend());  // the outermost last
    }
    std::map<std::string, std::int64_t> shown;
    std::vector<std::string> path;
    const json::value tree = json_of({"report", file, "--tree", "--all", "--by", text_of(keys)});
    for (const json::value& node : tree.at("nodes").as_array()) {
      const auto depth = node.at("depth").to_number<std::size_t>();
      path.resize(depth);
      path.push_back((depth == 0 ? "" : path[depth - 1]) + "/" +
                     json::value_to<std::string>(node.at("name")));
      shown[path.back()] = node.at("total").at("samples").as_int64();
    }
    EXPECT_EQ(shown, test::paths_of(traces)) << text_of(keys);
  }
}

TEST_F(GoldenTest, ADifferenceByEachKeyIsThatOfTheTracesOfBothSides) {
  LabelledHost other(8);
  other.add(300);
  const auto base = write(host_.profile());
  const auto now = write(other.profile(), "b.pb.gz");
  // Percent of all samples, self and total, by the name of a row.
  using Shares = std::map<std::string, std::pair<double, double>>;
  const auto percents_of = [](const std::vector<Trace>& traces,
                              const std::vector<std::string>& keys) {
    Shares shares;
    const double percent = 100 / static_cast<double>(sum_of_traces(traces));
    const auto add = [&](const std::string& name, const test::TraceSum& sum) {
      shares[name] = {percent * static_cast<double>(sum.self),
                      percent * static_cast<double>(sum.total)};
    };
    for (const auto& [name, row] : test::merged_rows(traces, keys)) {
      if (keys.size() == 1) add(name, row.sum);
      for (const auto& [inner, sum] : row.inner) add(name + ": " + inner, sum);
    }
    return shares;
  };
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"unit"}, {"file"}, {"line"}, {"process", "function"}, {"runtime", "command"}}) {
    Shares before = percents_of(lines_of(base), keys);
    Shares after = percents_of(lines_of(now), keys);
    const json::value diff = json_of({"diff", base, now, "--by", text_of(keys)});
    std::size_t rows = 0;
    for (const json::value& row : diff.at("rows").as_array()) {
      ++rows;
      const auto name = json::value_to<std::string>(row.at("name"));
      EXPECT_EQ(row.as_object().contains("base"), before.contains(name)) << name;
      EXPECT_EQ(row.as_object().contains("new"), after.contains(name)) << name;
      EXPECT_NEAR(row.at("change").to_number<double>(), after[name].first - before[name].first,
                  1e-6)
          << name;
      EXPECT_NEAR(row.at("total_change").to_number<double>(),
                  after[name].second - before[name].second, 1e-6)
          << name;
    }
    Shares both = before;  // the names of rows that one side lacks were added by [] above
    both.insert(after.begin(), after.end());
    EXPECT_EQ(rows, both.size()) << text_of(keys);
  }
}

}  // namespace
}  // namespace profd
