// Reports, trees and differences against an independent merge of the same stacks: what Go's pprof
// prints of the file.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/api/session_summary.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/hostile_profile.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace json = boost::json;
using test::paths_of;
using test::Trace;
using test::TraceSums;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

class ReportTest : public testing::Test {
 protected:
  ReportTest() { random_.add(400); }

  std::filesystem::path write(const PprofProfile& profile, const std::string& name = "a.pb.gz") {
    return scratch_.write(name, encode_pprof_gzip(profile));
  }
  Ran run(Arguments arguments) {
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
  }
  json::value json_of(Arguments arguments) {
    arguments.emplace_back("--json");
    const Ran ran = run(std::move(arguments));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out.empty() ? "null" : ran.out);
  }
  static std::int64_t samples_of(const json::value& value) {
    return value.at("samples").as_int64();
  }
  static std::string name_of(const json::value& row) {
    return json::value_to<std::string>(row.at("name"));
  }

  test::ScratchDirectory scratch_;
  test::RandomProfile random_{7};
};

TEST_F(ReportTest, EachFunctionHasTheSumsThatPprofHas) {
  const auto file = write(random_.profile());
  const json::value report = json_of({"report", file, "--names", "full"});
  const TraceSums sums = test::row_sums(report.at("rows"));
  EXPECT_EQ(sums, test::function_sums(test::traces_of(file)));
  const test::Report top = test::go_report(file);
  ASSERT_FALSE(top.rows.empty());
  for (const auto& [name, row] : top.rows) {
    const test::TraceSum expected{.self = static_cast<std::int64_t>(row.flat),
                                  .total = static_cast<std::int64_t>(row.cumulative)};
    EXPECT_EQ(sums.at(test::without_inline_mark(name)), expected) << name;
  }
  EXPECT_EQ(sums.size(), top.rows.size());
  EXPECT_EQ(static_cast<std::uint64_t>(samples_of(report.at("all"))), top.total);
}

// Two thirds of the samples are missing in all numbers that follow.
TEST_F(ReportTest, LossesOfTheRecordingAreSaid) {
  SessionSummary summary;
  summary.session = "5f2c01ab";
  summary.started = "2026-01-02T03:04:05Z";
  summary.seconds = 5;
  summary.event = "cpu";
  summary.period_us = 10101;
  summary.ledger = {
      .taken = 30, .written = 10, .lost = {{"ring_full", 19}, {"\xe2\x80\xae\x1b", 1}}};
  PprofProfile profile = random_.profile();
  profile.own_data = to_json(summary);
  const auto file = write(profile);
  for (const Arguments& arguments :
       {Arguments{"report", file}, Arguments{"report", "--tree", file},
        Arguments{"diff", file, file}, Arguments{"report", "--json", file}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("20 of 30 samples were lost, so times are too small: "));
    EXPECT_THAT(ran.err, HasSubstr("19 ring_full"));
    EXPECT_THAT(ran.err, Not(HasSubstr("\x1b")));
    EXPECT_THAT(ran.err, Not(HasSubstr("\xe2\x80\xae")));
  }
  summary.ledger = {.taken = 10, .written = 10, .lost = {}};
  profile.own_data = to_json(summary);
  EXPECT_EQ(run({"report", write(profile)}).err, "");
}

TEST_F(ReportTest, LabelsHaveTheSumsOfTheirTraces) {
  const auto file = write(random_.profile());
  const auto traces = test::traces_of(file);
  for (const auto& [key, label] : std::map<std::string, std::string>{
           {"unit", "unit"}, {"user", "user"}, {"process", "comm"}}) {
    std::map<std::string, std::int64_t> sums;
    const json::value report = json_of({"report", file, "--by", key});
    for (const json::value& row : report.at("rows").as_array()) {
      std::string name = name_of(row);
      if (key == "process") name = name.substr(0, name.find(' '));  // "program1 101"
      if (name == "(no unit)") name = "-";
      EXPECT_EQ(samples_of(row.at("self")), samples_of(row.at("total")));
      sums[name] += samples_of(row.at("total"));
    }
    EXPECT_EQ(sums, test::label_sums(traces, label)) << key;
  }
}

TEST_F(ReportTest, TwoLevelsHaveTheSumsOfTheTracesOfEachGroup) {
  const auto file = write(random_.profile());
  std::map<std::string, std::vector<Trace>> by_unit;
  for (const Trace& trace : test::traces_of(file))
    by_unit[trace.labels.at("unit")].push_back(trace);
  const json::value report = json_of({"report", file, "--by", "unit,function", "--names", "full"});
  ASSERT_EQ(report.at("rows").as_array().size(), by_unit.size());
  for (const json::value& row : report.at("rows").as_array()) {
    const std::string unit = name_of(row) == "(no unit)" ? "-" : name_of(row);
    EXPECT_EQ(test::row_sums(row.at("rows")), test::function_sums(by_unit[unit])) << unit;
  }
  // The other way round, the same numbers stand at other places.
  std::int64_t of_functions = 0;
  const json::value other = json_of({"report", file, "--by", "function,unit", "--names", "full"});
  for (const json::value& row : other.at("rows").as_array()) {
    std::int64_t sum = 0;
    for (const json::value& inner : row.at("rows").as_array()) {
      sum += samples_of(inner.at("total"));
      of_functions += samples_of(inner.at("self"));
    }
    EXPECT_EQ(sum, samples_of(row.at("total")));
  }
  EXPECT_EQ(of_functions, samples_of(report.at("all")));
}

TEST_F(ReportTest, FocusIgnoreAndHideChooseAsPprofDoes) {
  const auto file = write(random_.profile());
  const std::string pprof = std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                            " -symbolize=none -sample_index=samples ";
  for (const auto& [option, pattern] :
       std::vector<std::pair<std::string, std::string>>{{"focus", "work_1$"},
                                                        {"ignore", "work_1"},
                                                        {"hide", "work_2"},
                                                        {"hide", "kallsyms"},
                                                        {"focus", "file3"},
                                                        {"ignore", "lib4.so"}}) {
    const auto traces = test::read_traces(
        test::output_of(pprof + "-" + option + "='" + pattern + "' -traces " + file.string()));
    const json::value report = json_of({"report", file, "--names", "full", "--" + option, pattern});
    EXPECT_EQ(test::row_sums(report.at("rows")), test::function_sums(traces))
        << option << " " << pattern;
  }
}

std::map<std::string, std::int64_t> paths_of(const json::value& tree) {
  std::map<std::string, std::int64_t> paths;
  std::vector<std::string> path;
  for (const json::value& node : tree.at("nodes").as_array()) {
    const auto depth = static_cast<std::size_t>(node.at("depth").to_number<std::int64_t>());
    path.resize(depth);
    path.push_back((depth == 0 ? "" : path[depth - 1]) + "/" +
                   json::value_to<std::string>(node.at("name")));
    paths[path.back()] = node.at("total").at("samples").as_int64();
  }
  return paths;
}

TEST_F(ReportTest, TheTreeHasThePathsOfAllTraces) {
  const auto file = write(random_.profile());
  const auto tree = json_of({"report", file, "--tree", "--all", "--names", "full"});
  EXPECT_EQ(paths_of(tree), paths_of(test::traces_of(file)));
}

TEST_F(ReportTest, CallersAndCalleesAreThePathsAroundTheOutermostCall) {
  const auto file = write(random_.profile());
  const std::string function = "ns::work_3";
  std::vector<Trace> callers;
  std::vector<Trace> callees;
  for (const Trace& trace : test::traces_of(file)) {
    const auto at = std::find(trace.stack.rbegin(), trace.stack.rend(), function);
    if (at == trace.stack.rend()) continue;
    callees.push_back(trace);
    callees.back().stack = {trace.stack.begin(), at.base()};
    callers.push_back(trace);
    callers.back().stack = {trace.stack.rbegin(), at + 1};
  }
  const json::value both = json_of(
      {"report", file, "--callers", function, "--callees", function, "--all", "--names", "full"});
  EXPECT_EQ(paths_of(both.at("callees")), paths_of(callees));
  EXPECT_EQ(paths_of(both.at("callers")), paths_of(callers));
}

TEST_F(ReportTest, APrunedTreeHasTheLargestNodesAndSaysHowManyAreLeft) {
  const auto file = write(random_.profile());
  const auto all = paths_of(json_of({"report", file, "--tree", "--all"}));
  const json::value pruned = json_of({"report", file, "--tree", "--limit", "30"});
  const auto some = paths_of(pruned);
  EXPECT_EQ(some.size(), 30U);
  EXPECT_EQ(pruned.at("left_out").to_number<std::size_t>(), all.size() - 30);
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [path, samples] : some) {
    EXPECT_EQ(samples, all.at(path));
    smallest = std::min(smallest, samples);
  }
  for (const auto& [path, samples] : all) {
    if (some.contains(path)) continue;
    EXPECT_LE(samples, smallest) << path;
  }
}

// "rare" has 4 of 1000 samples: less than the smallest node of a tree of all of them.
TEST_F(ReportTest, AFunctionWithFewSamplesHasCallersAndCallees) {
  const std::string file = scratch_.write(
      "rare.folded", "main;rare;leaf_a 3\nmain;other;rare;leaf_b 1\nmain;busy 996\n");
  const Ran callees = run({"report", file, "--callees", "rare"});
  EXPECT_EQ(callees.code, 0) << callees.err;
  EXPECT_THAT(callees.out, HasSubstr("leaf_a"));
  EXPECT_THAT(callees.out, HasSubstr("leaf_b"));
  const Ran callers = run({"report", file, "--callers", "rare"});
  EXPECT_THAT(callers.out, HasSubstr("main"));
  EXPECT_THAT(callers.out, HasSubstr("other"));
  for (const Ran& ran : {callees, callers}) EXPECT_THAT(ran.out, Not(HasSubstr("left out")));
  EXPECT_THAT(run({"report", file, "--tree", "--focus", "rare"}).out, HasSubstr("leaf_b"));
}

TEST_F(ReportTest, AFunctionOfThatNameIsTakenAlone) {
  const std::string file = scratch_.write(
      "a.folded", "main;work;inner 5\nmain;worker;other 2\nmain;work(int);third 1\n");
  const Ran ran = run({"report", file, "--callees", "work"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("inner"));
  EXPECT_THAT(ran.out, HasSubstr("third"));  // the short name of work(int) is the same
  EXPECT_THAT(ran.out, Not(HasSubstr("other")));
}

TEST_F(ReportTest, TheFunctionsThatAnExpressionMatchesAreNamed) {
  std::string folded;
  for (const std::string name : {"worker", "work_a", "work_b", "work_b(int)", "rework"}) {
    folded += "main;" + name + ";leaf 2\n";
  }
  const std::string few = scratch_.write("few.folded", folded);
  const std::string named = "profctl: 4 functions match 'work': rework, work_a, work_b, worker\n";
  EXPECT_EQ(run({"report", few, "--callees", "work"}).err, named);
  EXPECT_EQ(run({"report", few, "--callers", "work", "--callees", "work"}).err, named);
  EXPECT_EQ(run({"report", few, "--callees", "work", "--json"}).err, named);
  EXPECT_EQ(run({"report", few, "--callees", "work_a"}).err, "");
  EXPECT_EQ(run({"report", few, "--callees", "^rew"}).err, "");
  EXPECT_THAT(run({"report", few, "--callees", "work", "--names", "full"}).err,
              HasSubstr("5 functions match 'work': rework, work_a, work_b, work_b(int), worker\n"));
  for (const std::string name : {"work_c", "work_d\x1bm"}) {
    folded += "main;" + name + ";leaf 2\n";
  }
  const std::string many = scratch_.write("many.folded", folded);
  EXPECT_EQ(run({"report", many, "--callees", "work"}).err,
            "profctl: 6 functions match 'work': rework, work_a, work_b, work_c, work_d?m and "
            "1 more\n");
}

// All of the time is in what "work" calls.
TEST_F(ReportTest, CallersHaveNoTimeOfTheirOwn) {
  const std::string file = scratch_.write("a.folded", "main;run;work;step 3\nmain;work 1\n");
  const Ran callers = run({"report", file, "--callers", "work"});
  EXPECT_EQ(callers.code, 0) << callers.err;
  EXPECT_THAT(callers.out, Not(HasSubstr("SELF")));
  EXPECT_THAT(callers.out, HasSubstr("TOTAL SAMPLES    TOTAL  FUNCTION\n"
                                     "            4  100.0 %  work\n"
                                     "            3   75.0 %   run\n"
                                     "            3   75.0 %    main\n"
                                     "            1   25.0 %   main\n"));
  EXPECT_THAT(run({"report", file, "--callees", "work"}).out, HasSubstr("SELF"));
  EXPECT_THAT(run({"report", file, "--tree"}).out, HasSubstr("SELF"));
}

// Of 1008 samples, 2 for each of four functions: 0.2 %, and 0.8 % together.
TEST_F(ReportTest, SmallCallersAndCalleesAreLeftOutWithTheirShare) {
  std::string folded = "hot;work;hot_callee 1000\n";
  for (const std::string number : {"0", "1", "2", "3"}) {
    folded += "caller_" + number + ";work;callee_" + number + " 2\n";
  }
  const std::string file = scratch_.write("small.folded", folded);
  for (const std::string side : {"caller", "callee"}) {
    const std::string option = "--" + side + "s";
    const Ran ran = run({"report", file, option, "work"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("hot"));
    EXPECT_THAT(ran.out, Not(HasSubstr(side + "_3")));
    EXPECT_THAT(ran.out, testing::EndsWith("... 4 smaller nodes left out, with 0.8 % of all "
                                           "samples (--all, --limit N)\n"));
    const Ran all = run({"report", file, option, "work", "--all"});
    EXPECT_THAT(all.out, HasSubstr(side + "_3"));
    EXPECT_THAT(all.out, Not(HasSubstr("left out")));
  }
}

TEST_F(ReportTest, ADifferenceIsThatOfTheSharesOfBothSides) {
  test::RandomProfile other(8);
  other.add(300);
  const auto base = write(random_.profile());
  const auto now = write(other.profile(), "b.pb.gz");
  const auto shares = [](const std::vector<Trace>& traces) {
    std::map<std::string, double> of;
    std::int64_t all = 0;
    for (const Trace& trace : traces) all += trace.samples;
    for (const auto& [name, sum] : test::function_sums(traces)) {
      of[name] = 100.0 * static_cast<double>(sum.self) / static_cast<double>(all);
    }
    return of;
  };
  auto before = shares(test::traces_of(base));
  auto after = shares(test::traces_of(now));
  const json::value diff = json_of({"diff", base, now, "--names", "full"});
  std::size_t rows = 0;
  double last = 101;
  for (const json::value& row : diff.at("rows").as_array()) {
    ++rows;
    const double change = row.at("change").to_number<double>();
    EXPECT_NEAR(change, after[name_of(row)] - before[name_of(row)], 1e-6) << name_of(row);
    EXPECT_LE(std::abs(change), last + 1e-9);
    last = std::abs(change);
  }
  EXPECT_EQ(rows, std::max(before.size(), after.size()));
}

// Functions without callers, of these milliseconds of CPU time, sampled for so long.
PprofProfile profile_of_times(std::int64_t seconds,
                              const std::map<std::string, std::int64_t>& ms_by_name) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 1'000'000;
  profile.duration_ns = seconds * 1'000'000'000;
  const std::uint32_t mapping = profile.add_mapping(
      {.start = 0x1000, .limit = 0x9000, .file = profile.add_text("/usr/bin/work")});
  std::uint64_t address = 0x1000;
  for (const auto& [name, ms] : ms_by_name) {
    const std::uint32_t text = profile.add_text(name);
    const PprofLine line{.function = profile.add_function({.name = text, .system_name = text})};
    const std::uint32_t location =
        profile.add_location({.address = address, .mapping = mapping}, {&line, 1});
    const std::vector<std::int64_t> values{ms, ms * 1'000'000};
    const std::uint32_t labels = profile.add_labels({});
    profile.add_sample({.labels = labels, .stack = profile.add_stack({&location, 1})}, values);
    address += 16;
  }
  return profile;
}

// 2 s and 1 s of CPU time in 10 s, and 2 s and 0.5 s in 5 s.
TEST_F(ReportTest, PercentOfOneCpuAreOfTheTimeThatWasSampled) {
  const auto base = write(profile_of_times(10, {{"f", 2000}, {"g", 1000}}));
  const auto now = write(profile_of_times(5, {{"f", 2000}, {"h", 500}}), "b.pb.gz");
  const json::value report = json_of({"report", base});
  const json::value& f = report.at("rows").at(0);
  EXPECT_EQ(name_of(f), "f");
  EXPECT_NEAR(f.at("self_cpu_percent").to_number<double>(), 20, 1e-9);
  EXPECT_NEAR(f.at("total_cpu_percent").to_number<double>(), 20, 1e-9);
  EXPECT_NEAR(f.at("self_percent").to_number<double>(), 200.0 / 3, 1e-9);
  EXPECT_THAT(run({"report", base}).out, HasSubstr("20.0 %  66.7 %"));
  const auto changes_of = [&](const Arguments& more) {
    Arguments arguments{"diff", base, now};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, double> changes;
    const json::value diff = json_of(arguments);
    for (const json::value& row : diff.at("rows").as_array()) {
      changes[name_of(row)] = row.at("change").to_number<double>();
    }
    return changes;
  };
  auto of_cpu = changes_of({"--per", "cpu"});
  ASSERT_EQ(of_cpu.size(), 3U);
  EXPECT_NEAR(of_cpu["f"], 40 - 20, 1e-9);
  EXPECT_NEAR(of_cpu["g"], 0 - 10, 1e-9);
  EXPECT_NEAR(of_cpu["h"], 10 - 0, 1e-9);
  for (const Arguments& more : {Arguments{}, Arguments{"--per", "share"}}) {
    auto of_samples = changes_of(more);
    EXPECT_NEAR(of_samples["f"], 80 - 200.0 / 3, 1e-9);
    EXPECT_NEAR(of_samples["g"], 0 - 100.0 / 3, 1e-9);
    EXPECT_NEAR(of_samples["h"], 20 - 0, 1e-9);
  }
  EXPECT_THAT(run({"diff", base, now, "--per", "cpu"}).out, HasSubstr("+20.0 %"));
  EXPECT_EQ(run({"diff", base, now, "--per", "cpu", "--threshold", "20.5%"}).code, 0);
  EXPECT_EQ(run({"diff", base, now, "--per", "cpu", "--threshold", "19.5%"}).code, kExitFailed);
}

TEST_F(ReportTest, PercentOfOneCpuNeedTheTimeThatWasSampled) {
  const std::string timeless = write(profile_of_times(0, {{"f", 2000}}));
  const std::string folded = scratch_.write("a.folded", "main;f 5\n");
  for (const std::string& file : {timeless, folded}) {
    const Ran ran = run({"diff", file, file, "--per", "cpu"});
    EXPECT_EQ(ran.code, kExitUsage) << file;
    EXPECT_THAT(ran.err, HasSubstr("leave out --per cpu")) << file;
  }
  EXPECT_EQ(run({"diff", folded, folded, "--per", "hour"}).code, kExitUsage);
}

// A service whose work is done by many short processes.
TEST_F(ReportTest, ACommandHasTheSamplesOfAllItsProcesses) {
  PprofProfile profile = profile_of_times(10, {{"f", 1000}});
  const std::uint32_t stack = profile.samples().front().stack;
  for (std::int64_t pid = 101; pid <= 103; ++pid) {
    const std::string name = pid == 103 ? "ld" : "cc1plus";
    const std::uint32_t labels =
        profile.add_labels({{.key = profile.add_text("pid"), .number = pid},
                            {.key = profile.add_text("comm"), .text = profile.add_text(name)}});
    profile.add_sample({.labels = labels, .stack = stack}, std::vector<std::int64_t>{pid, 0});
  }
  const std::string file = write(profile);
  std::map<std::string, std::int64_t> sums;
  const json::value report = json_of({"report", file, "--by", "command"});
  for (const json::value& row : report.at("rows").as_array()) {
    sums[name_of(row)] = samples_of(row.at("total"));
  }
  EXPECT_EQ(sums, (std::map<std::string, std::int64_t>{
                      {"(unknown command)", 1000}, {"cc1plus", 101 + 102}, {"ld", 103}}));
  EXPECT_THAT(run({"report", file, "--by", "command"}).out, HasSubstr("COMMAND\n"));
}

TEST_F(ReportTest, ASideWithoutTheTargetCountsAsEmpty) {
  PprofProfile profile = profile_of_times(10, {{"f", 1000}});
  const std::string without = write(profile);
  const std::uint32_t labels =
      profile.add_labels({{.key = profile.add_text("comm"), .text = profile.add_text("late")}});
  profile.add_sample({.labels = labels, .stack = profile.samples().front().stack},
                     std::vector<std::int64_t>{500, 500'000'000});
  const std::string with = write(profile, "b.pb.gz");
  const std::string said =
      "profctl: " + without + ": no sample is of comm late: it counts as empty\n";
  const Ran ran = run({"diff", without, with, "-n", "late"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, said);
  EXPECT_THAT(ran.out, HasSubstr("+100.0 %   new  100.0 %"));
  const Ran other = run({"diff", with, without, "-n", "late", "--per", "cpu"});
  EXPECT_EQ(other.code, 0);
  EXPECT_EQ(other.err, said);
  EXPECT_THAT(other.out, HasSubstr("-5.0 %  5.0 %  gone"));  // 0.5 s in 10 s
  EXPECT_EQ(run({"diff", without, with, "-n", "late", "--threshold", "50%"}).code, kExitFailed);
  const json::value diff = json_of({"diff", without, with, "-n", "late"});
  EXPECT_FALSE(diff.at("rows").at(0).as_object().contains("base"));
  const Ran neither = run({"diff", without, with, "-n", "nosuch"});
  EXPECT_EQ(neither.code, kExitNotFound);
  EXPECT_THAT(neither.err, HasSubstr("no sample is of comm nosuch"));
  EXPECT_THAT(neither.err, Not(HasSubstr("counts as empty")));
}

// What is above the table is a sentence, which a terminal breaks.
TEST_F(ReportTest, TablesFitATerminalOf40Columns) {
  test::RandomProfile other(8);
  other.add(300);
  const std::string file = write(random_.profile());
  const std::string now = write(other.profile(), "b.pb.gz");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"report", file},
                              {"report", file, "--by", "unit,function"},
                              {"report", file, "--by", "process"},
                              {"report", file, "--tree"},
                              {"report", file, "--callers", "ns::work_3"},
                              {"diff", file, now}}) {
    const Ran ran = run_with_socket(scratch_.path() / "no-socket", arguments, Screen{.width = 40});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const std::size_t table = ran.out.find("\n\n");
    ASSERT_NE(table, std::string::npos);
    std::istringstream lines(ran.out.substr(table + 2));
    std::size_t rows = 0;
    for (std::string line; std::getline(lines, line); ++rows) {
      if (line.starts_with("...")) continue;
      EXPECT_LE(columns_of(line), 40U) << line;
    }
    EXPECT_GT(rows, 4U) << testing::PrintToString(arguments);
  }
}

TEST_F(ReportTest, AThresholdDecidesTheExitCode) {
  test::RandomProfile other(9);
  other.add(50);
  const std::string base = write(random_.profile());
  const std::string now = write(other.profile(), "b.pb.gz");
  EXPECT_EQ(run({"diff", base, now}).code, 0);
  EXPECT_EQ(run({"diff", base, base, "--threshold", "0%"}).code, 0);
  const Ran beyond = run({"diff", base, now, "--threshold", "0.01%"});
  EXPECT_EQ(beyond.code, kExitFailed);
  EXPECT_THAT(beyond.err, HasSubstr("changed by more than"));
  EXPECT_EQ(run({"diff", base, now, "--threshold", "99%"}).code, 0);
  EXPECT_EQ(run({"diff", base, now, "--threshold", "five"}).code, kExitUsage);
}

TEST_F(ReportTest, NewAndGoneRowsAreNamed) {
  test::RandomProfile few(3, 5);
  few.add(20);
  test::RandomProfile more(3, 8);
  more.add(20);
  const std::string base = write(few.profile());
  const std::string now = write(more.profile(), "b.pb.gz");
  EXPECT_THAT(run({"diff", base, now}).out, HasSubstr("new"));
  EXPECT_THAT(run({"diff", now, base}).out, HasSubstr("gone"));
}

TEST_F(ReportTest, AListStopsAtTwentyRowsAndSaysHowManyAreLeft) {
  const std::string file = write(random_.profile());
  const auto functions = test::function_sums(test::traces_of(file)).size();
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  const Ran ran = run({"report", file});
  EXPECT_THAT(ran.out, HasSubstr("... " + std::to_string(functions - 20) + " more rows"));
  EXPECT_EQ(lines(ran.out), 2 + 1 + 20 + 1);  // title, blank, heads, rows, what is left
  const Ran all = run({"report", file, "--all"});
  EXPECT_EQ(lines(all.out), 2 + 1 + static_cast<std::ptrdiff_t>(functions));
  EXPECT_THAT(all.out, Not(HasSubstr("more row")));
  EXPECT_EQ(lines(run({"report", file, "--limit", "3"}).out), 2 + 1 + 3 + 1);
}

TEST_F(ReportTest, OptionsThatExcludeEachOtherAreRefused) {
  const std::string file = write(random_.profile());
  for (const Arguments& arguments :
       std::vector<Arguments>{{"report", file, "--last", "10m"},
                              {"report", file, "--tree", "--callers", "x"},
                              {"report", file, "--tree", "--by", "file"},
                              {"report", file, "--by", "unit,unit"},
                              {"report", file, "--by", "unit,user,function"},
                              {"report", file, "--by", "module"},
                              {"report", file, "--names", "long"},
                              {"report", file, "--all", "--limit", "3"},
                              {"report", file, "--focus", "("}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitUsage) << testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, HasSubstr("hint: "));
  }
}

TEST_F(ReportTest, WhatMatchesNothingIsNotFound) {
  const std::string file = write(random_.profile());
  for (const Arguments& arguments :
       std::vector<Arguments>{{"report", file, "--focus", "nosuch"},
                              {"report", file, "--callers", "nosuch"},
                              {"report", file, "-n", "nosuch"},
                              {"report", file, "-u", "nosuch"},
                              {"report", file, "-p", "7"},
                              {"diff", file, file, "--focus", "nosuch"},
                              {"diff", file, file, "-n", "nosuch"},
                              {"diff", file, "nosuch.pb.gz", "-n", "program1"},
                              {"report", "nosuch.pb.gz"}}) {
    EXPECT_EQ(run(arguments).code, kExitNotFound) << testing::PrintToString(arguments);
  }
}

// Elsewhere -n is the number of rows.
TEST_F(ReportTest, ANumberAsNameHasTheOptionForTheNumberOfRows) {
  const std::string file = write(random_.profile());
  const std::string picture = scratch_.path() / "x.svg";
  for (const Arguments& arguments :
       std::vector<Arguments>{{"report", file, "-n", "20"},
                              {"flame", file, "-n", "20", "-o", picture},
                              {"diff", file, file, "-n", "20"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound) << arguments.front();
    EXPECT_THAT(ran.err, HasSubstr("no sample is of comm 20"));
    EXPECT_THAT(ran.err, HasSubstr("hint: -n is --comm here, the name of a process; report and "
                                   "diff show 20 rows with --limit 20"));
    EXPECT_EQ(ran.out, "");
  }
  const Ran name = run({"report", file, "-n", "nosuch"});
  EXPECT_EQ(name.code, kExitNotFound);
  EXPECT_THAT(name.err, HasSubstr("no sample is of comm nosuch"));
  EXPECT_THAT(name.err, Not(HasSubstr("--limit")));
}

TEST_F(ReportTest, TargetsChooseProcessesByTheirLabels) {
  const std::string file = write(random_.profile());
  const auto traces = test::traces_of(file);
  const auto all = [&](const Arguments& target) {
    Arguments arguments{"report", file};
    arguments.insert(arguments.end(), target.begin(), target.end());
    return samples_of(json_of(arguments).at("all"));
  };
  EXPECT_EQ(all({"-n", "program2"}), test::label_sums(traces, "comm").at("program2"));
  EXPECT_EQ(all({"-u", "unit1"}), test::label_sums(traces, "unit").at("unit1.service"));
  EXPECT_EQ(all({"--uid", "0"}), test::label_sums(traces, "user").at("root"));
  EXPECT_EQ(all({"-p", "101,103"}), test::label_sums(traces, "comm").at("program1") +
                                        test::label_sums(traces, "comm").at("program3"));
}

// main() of two programs.
TEST_F(ReportTest, AFunctionHasTheObjectsOfTheSamplesThatAreShown) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  const std::uint32_t name = profile.add_text("main");
  const std::uint32_t function = profile.add_function({.name = name, .system_name = name});
  for (const std::string program : {"left", "right"}) {
    const std::uint32_t mapping = profile.add_mapping(
        {.start = 0x1000, .limit = 0x2000, .file = profile.add_text("/usr/bin/" + program)});
    const PprofLine line{.function = function};
    const std::uint32_t location =
        profile.add_location({.address = 0x1000, .mapping = mapping}, {&line, 1});
    const std::uint32_t labels =
        profile.add_labels({{.key = profile.add_text("comm"), .text = profile.add_text(program)}});
    const std::vector<std::int64_t> values{1, 1000};
    profile.add_sample({.labels = labels, .stack = profile.add_stack({&location, 1})}, values);
  }
  const std::string file = write(profile);
  const auto object_of = [](const json::value& row) {
    return json::value_to<std::string>(row.at("object"));
  };
  EXPECT_EQ(object_of(json_of({"report", file}).at("rows").at(0)), "(several)");
  EXPECT_EQ(object_of(json_of({"report", file, "-n", "left"}).at("rows").at(0)), "/usr/bin/left");
  EXPECT_EQ(object_of(json_of({"report", file, "-n", "right"}).at("rows").at(0)), "/usr/bin/right");
  const json::value two = json_of({"report", file, "--by", "process,function"});
  ASSERT_EQ(two.at("rows").as_array().size(), 2U);
  for (const json::value& process : two.at("rows").as_array()) {
    EXPECT_EQ(object_of(process.at("rows").at(0)), "/usr/bin/" + name_of(process));
  }
  EXPECT_EQ(object_of(json_of({"report", file, "--tree"}).at("nodes").at(0)), "(several)");
  const json::value tree = json_of({"report", file, "--tree", "--by", "process"});
  ASSERT_EQ(tree.at("nodes").as_array().size(), 4U);  // each process and its function
  for (const std::size_t process : {0, 2}) {
    EXPECT_EQ(object_of(tree.at("nodes").at(process + 1)),
              "/usr/bin/" + name_of(tree.at("nodes").at(process)));
  }
}

// A unit with two functions below it.
TEST_F(ReportTest, ALabelOfATreeIsNoKindOfCode) {
  const std::string file = scratch_.write("two.folded", "main;vfs_read_[k] 2\n");
  const json::value tree = json_of({"report", file, "--tree", "--by", "unit"});
  const auto text_of = [](const json::value& node, const char* member) {
    return json::value_to<std::string>(node.at(member));
  };
  std::vector<std::string> nodes;
  for (const json::value& node : tree.at("nodes").as_array()) {
    nodes.push_back(text_of(node, "name") + ": " + text_of(node, "kind"));
    EXPECT_FALSE(nodes.size() == 1 && node.as_object().contains("object"));
  }
  EXPECT_THAT(nodes, testing::ElementsAre("(no unit): label", "main: native", "vfs_read: kernel"));
}

TEST_F(ReportTest, SamplesWithoutFramesAreInNoFunction) {
  const std::string file = scratch_.write("bare.folded", " 5\n");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"report", file},
                              {"report", file, "--by", "function,process"},
                              {"report", file, "--tree"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound) << testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, HasSubstr("no sample of these has a stack"));
  }
  for (const char* keys : {"process", "process,function"}) {
    const json::value rows = json_of({"report", file, "--by", keys}).at("rows");
    ASSERT_EQ(rows.as_array().size(), 1U) << keys;
    EXPECT_EQ(samples_of(rows.at(0).at("total")), 5) << keys;
  }
  EXPECT_EQ(run({"diff", file, file}).code, kExitNotFound);
  EXPECT_EQ(run({"diff", file, file, "--by", "process"}).code, 0);
}

TEST_F(ReportTest, HostileNamesAreShownAsPrintableText) {
  // The writer of profile.proto repairs names; a file of another program has them as they are.
  const std::string folded =
      "main;<script>alert(1)</script> 3\nmain;\x1b[31mred 2\nmain;\xe2\x80\xae"
      "evil 2\n"
      "main;\xff\xfe"
      "bad 1\nmain;" +
      std::string(1 << 20, 'a') + " 9\n";
  const std::string file = scratch_.write("hostile.folded", folded);
  for (const Arguments& arguments : std::vector<Arguments>{{"report", file},
                                                           {"report", file, "--tree"},
                                                           {"report", file, "--callees", "main"},
                                                           {"diff", file, file},
                                                           {"report", file, "--names", "full"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(ran.out, Not(HasSubstr("\xe2\x80\xae")));
    EXPECT_THAT(ran.out, Not(HasSubstr("\xff")));
    EXPECT_LT(ran.out.size(), 64U << 10);
  }
  EXPECT_THAT(run({"report", file, "--names", "full"}).out, HasSubstr("<script>alert(1)</script>"));
  EXPECT_EQ(samples_of(json_of({"report", file}).at("all")), 17);
}

// Labels come from other programs, as names of functions do.
TEST_F(ReportTest, HostileLabelsAndFilesAreShownAsPrintableText) {
  const std::string file = scratch_.write("hostile.pb", test::hostile_profile());
  for (const std::string by : {"unit", "process", "command", "user", "file", "unit,file"}) {
    SCOPED_TRACE(by);
    const Arguments arguments{"report", file, "--by", by};
    const Ran piped = run(arguments);
    EXPECT_EQ(piped.code, 0) << piped.err;
    EXPECT_LT(piped.out.size(), 64U << 10);
    for (const test::HostileName& name : test::hostile_names()) {
      EXPECT_THAT(piped.out, HasSubstr(name.shown));
    }
    const Ran shown =
        run_with_socket(scratch_.path() / "no-socket", arguments, Screen{.width = 60});
    EXPECT_EQ(shown.code, 0) << shown.err;
    for (const std::string& out : {piped.out, shown.out}) {
      std::istringstream lines(out);
      for (std::string line; std::getline(lines, line);) EXPECT_TRUE(is_printable(line)) << line;
    }
    std::istringstream table(shown.out.substr(shown.out.find("\n\n") + 2));
    for (std::string line; std::getline(table, line);) {
      if (line.starts_with("...")) continue;
      EXPECT_LE(columns_of(line), 60U) << line;
    }
    const auto rows = json_of({"report", file, "--by", by}).at("rows").as_array();
    EXPECT_EQ(rows.size(), test::hostile_names().size());
    for (const json::value& row : rows) {
      EXPECT_EQ(samples_of(row.at("total")), test::kSamplesOfHostileName);
    }
  }
}

}  // namespace
}  // namespace profd
