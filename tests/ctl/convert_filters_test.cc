// profctl convert with --focus, --ignore, --hide and targets: what is written has the samples that
// Go's pprof leaves of the same file by its own filters.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "formats/profile/pprof_writer.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/filtered_traces.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

class ConvertFiltersTest : public test::ProfctlTest {
 protected:
  ConvertFiltersTest() {
    random_.add(200);
    source_ = scratch_.write("a.pb.gz", encode_pprof_gzip(random_.profile()));
  }

  [[nodiscard]] std::filesystem::path output(const std::string& extension) const {
    return scratch_.path() / ("out" + extension);
  }
  // `arguments`: the sources and filters. `samples_` becomes the number that profctl prints.
  std::filesystem::path converted(std::vector<std::string> arguments,
                                  const std::string& extension) {
    const std::filesystem::path file = output(extension);
    arguments.insert(arguments.begin(), "convert");
    arguments.insert(arguments.end(), {"-o", file, "--json"});
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto printed = boost::json::parse(ran.code == 0 ? ran.out : "{\"samples\":-1}");
    samples_ = printed.at("samples").as_int64();
    return file;
  }
  std::filesystem::path filtered(const test::FilterCase& filter, const std::string& extension) {
    std::vector<std::string> arguments{source_};
    arguments.insert(arguments.end(), filter.options.begin(), filter.options.end());
    return converted(arguments, extension);
  }
  // The profile of a history or session.
  void give_random_profile() {
    const std::string bytes = encode_pprof_gzip(random_.profile());
    service_.files["profile.pb.gz"] = bytes;
    service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  }

  test::ScratchDirectory scratch_;
  test::RandomProfile random_{23};
  std::string source_;
  std::int64_t samples_ = 0;
};

std::map<std::string, std::int64_t> lines_of_folded(const std::string& text) {
  std::map<std::string, std::int64_t> sums;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    sums[line.substr(0, blank)] += std::stoll(line.substr(blank));
  }
  return sums;
}

// By whole stack, "main;work", of all processes.
std::map<std::string, std::int64_t> stacks_of_speedscope(const boost::json::value& file) {
  std::map<std::string, std::int64_t> sums;
  const auto& frames = file.at("shared").at("frames").as_array();
  for (const auto& profile : file.at("profiles").as_array()) {
    const auto& weights = profile.at("weights").as_array();
    const auto& samples = profile.at("samples").as_array();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::string stack;
      for (const auto& frame : samples[i].as_array()) {
        const auto& name = frames.at(frame.to_number<std::size_t>()).at("name");
        stack += (stack.empty() ? "" : ";") + boost::json::value_to<std::string>(name);
      }
      sums[stack] += weights[i].to_number<std::int64_t>() / test::RandomProfile::kPeriodNs;
    }
  }
  return sums;
}

TEST_F(ConvertFiltersTest, AProfileHasTheStacksAndLabelsThatPprofLeaves) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto expected = test::traces_with(source_, filter.of_pprof);
    ASSERT_FALSE(expected.empty());
    const auto written = test::traces_of(filtered(filter, ".pb.gz"));
    EXPECT_EQ(test::paths_of(written), test::paths_of(expected));
    for (const char* label : {"comm", "user", "pid"}) {
      EXPECT_EQ(test::label_sums(written, label), test::label_sums(expected, label)) << label;
    }
    EXPECT_EQ(samples_, test::sum_of_traces(expected));
  }
}

TEST_F(ConvertFiltersTest, TextFormsHaveTheStacksThatPprofLeaves) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto expected = test::folded_lines(test::traces_with(source_, filter.of_pprof));
    EXPECT_EQ(lines_of_folded(test::read_file(filtered(filter, ".folded"))), expected);
    std::map<std::string, std::int64_t> without_comm;
    for (const auto& [line, samples] : expected) {
      without_comm[line.substr(line.find(';') + 1)] += samples;
    }
    const auto speedscope = test::read_file(filtered(filter, ".speedscope.json"));
    EXPECT_EQ(stacks_of_speedscope(boost::json::parse(speedscope)), without_comm);
  }
}

TEST_F(ConvertFiltersTest, TreesHaveThePathsThatPprofLeaves) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto traces = test::traces_with(source_, filter.of_pprof);
    const auto expected = test::paths_of(traces);
    const std::string html = test::read_file(filtered(filter, ".html"));
    EXPECT_EQ(test::paths_of_data(test::data_of_html(html)), expected);
    EXPECT_EQ(samples_, test::sum_of_traces(traces));
    const auto tree = boost::json::parse(test::read_file(filtered(filter, ".json")));
    EXPECT_EQ(tree.at("nodes").as_array().size(), expected.size());
    EXPECT_EQ(tree.at("shown").at("samples").as_int64(), samples_);
    EXPECT_THAT(test::read_file(filtered(filter, ".svg")), HasSubstr("<svg "));
  }
}

TEST_F(ConvertFiltersTest, BothPprofsReadWhatIsLeftInAGperftoolsProfile) {
  for (const test::FilterCase& filter : test::filter_cases()) {
    SCOPED_TRACE(filter.of_pprof);
    const auto expected = test::function_sums(test::traces_with(source_, filter.of_pprof));
    const auto file = filtered(filter, ".prof");
    EXPECT_EQ(test::sums_of_report(test::go_report(file)), expected);
    EXPECT_EQ(test::sums_of_report(test::perl_report(file)), expected);
  }
}

// A file that is passed to others says nothing of what was left out of it.
TEST_F(ConvertFiltersTest, NamesThatWereLeftOutAreInNoFile) {
  (void)converted({source_, "--ignore", "work_3"}, ".prof");
  const std::string image = test::read_file(output(".prof.names.so"));
  EXPECT_THAT(image, HasSubstr("ns::work_"));
  EXPECT_THAT(image, Not(HasSubstr("work_3")));
  const std::string svg = test::read_file(converted({source_, "--ignore", "work_3"}, ".svg"));
  EXPECT_THAT(svg, Not(HasSubstr("work_3")));
}

TEST_F(ConvertFiltersTest, ATargetChoosesByTheLabelsOfSamples) {
  struct Case {
    std::vector<std::string> options;
    std::string label;
    std::vector<std::string> values;
  };
  const auto traces = test::traces_of(source_);
  for (const Case& one :
       std::vector<Case>{{{"-p", "102"}, "pid", {"102"}},
                         {{"-p", "101,105"}, "pid", {"101", "105"}},
                         {{"-n", "program1,program4"}, "comm", {"program1", "program4"}},
                         {{"-u", "unit1"}, "unit", {"unit1.service"}},
                         {{"--uid", "root"}, "user", {"root"}}}) {
    SCOPED_TRACE(one.options[1]);
    const auto expected = test::traces_of_label(traces, one.label, one.values);
    ASSERT_FALSE(expected.empty());
    ASSERT_LT(expected.size(), traces.size());
    std::vector<std::string> arguments = one.options;
    arguments.push_back(source_);
    const auto written = test::traces_of(converted(arguments, ".pb.gz"));
    EXPECT_EQ(test::paths_of(written), test::paths_of(expected));
    EXPECT_EQ(samples_, test::sum_of_traces(expected));
    EXPECT_EQ(test::label_sums(written, "comm"), test::label_sums(expected, "comm"));
  }
}

TEST_F(ConvertFiltersTest, ATargetHoldsBesideAFilter) {
  const auto expected =
      test::traces_of_label(test::traces_with(source_, "-ignore=work_1"), "comm", {"program2"});
  const auto written = converted({source_, "-n", "program2", "--ignore", "work_1"}, ".folded");
  EXPECT_EQ(lines_of_folded(test::read_file(written)), test::folded_lines(expected));
}

// As it is with the files of several hosts.
TEST_F(ConvertFiltersTest, SomeSourcesMayHaveNothingOfTheTarget) {
  test::RandomProfile other(5);
  other.add(1);
  const std::string second = scratch_.write("b.pb.gz", encode_pprof_gzip(other.profile()));
  const std::string comm = test::traces_of(second).front().labels.at("comm");
  const std::string wanted = comm == "program3" ? "program4" : "program3";
  const auto expected =
      test::paths_of(test::traces_of_label(test::traces_of(source_), "comm", {wanted}));
  for (const auto& [first, last] : {std::pair(source_, second), std::pair(second, source_)}) {
    const auto written = converted({first, last, "-n", wanted}, ".pb.gz");
    EXPECT_EQ(test::paths_of(test::traces_of(written)), expected);
  }
  const std::string file = scratch_.path() / "none.pb.gz";
  const Ran ran = run({"convert", source_, second, "-n", "nosuch", "-o", file});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("nosuch"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

// The daemon says of a time that nothing in it is of the target.
TEST_F(ConvertFiltersTest, ATimeOfTheHistoryMayHaveNothingOfTheTarget) {
  give_random_profile();
  const auto all = test::traces_of(source_);
  const std::vector<std::string> times{"@1767362700..@1767362760", "@1767362760..@1767362820"};
  for (const std::size_t refused : {std::size_t{0}, std::size_t{1}}) {
    service_.exported.clear();
    service_.on_call = [this, refused] {
      service_.error.reset();
      if (service_.calls.back() == "export" && service_.exported.size() == refused) {
        service_.error = fail(ErrorCode::kNotFound, "no process matched");
      }
    };
    const auto written = converted({times[0], times[1], "-n", "program3"}, ".pb.gz");
    EXPECT_EQ(test::paths_of(test::traces_of(written)), test::paths_of(all));
    EXPECT_EQ(service_.exported.size(), 2U);
  }
  service_.on_call = nullptr;
  service_.error = fail(ErrorCode::kNotFound, "no process matched");
  const auto written = converted({times[0], source_, "-n", "program3"}, ".pb.gz");
  EXPECT_EQ(test::paths_of(test::traces_of(written)),
            test::paths_of(test::traces_of_label(all, "comm", {"program3"})));
  const std::string file = scratch_.path() / "none.pb.gz";
  const Ran ran = run({"convert", times[0], times[1], "-n", "program3", "-o", file});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("no process matched"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

// -n is the number of rows elsewhere.
TEST_F(ConvertFiltersTest, ANumberAsANameHasAHint) {
  const Ran ran = run({"convert", source_, "-n", "20", "-o", output(".folded")});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("hint: -n is --comm here"));
}

TEST_F(ConvertFiltersTest, WhatMatchesNothingIsNotWritten) {
  for (const char* const extension :
       {".pb.gz", ".prof", ".folded", ".speedscope.json", ".html", ".svg", ".json"}) {
    SCOPED_TRACE(extension);
    const auto file = scratch_.write(std::string("x") + extension, "before");
    for (const auto& filter : std::vector<std::pair<std::string, std::string>>{
             {"--focus", "nosuch"}, {"--ignore", "work_"}, {"--hide", "work_"}, {"-p", "999"}}) {
      const Ran ran = run({"convert", source_, filter.first, filter.second, "-o", file});
      EXPECT_EQ(ran.code, kExitNotFound) << filter.first;
      EXPECT_THAT(ran.err, HasSubstr("hint: ")) << filter.first;
      EXPECT_EQ(test::read_file(file), "before") << filter.first;
      EXPECT_FALSE(std::filesystem::exists(file.string() + ".names.so")) << filter.first;
    }
  }
}

TEST_F(ConvertFiltersTest, WhatMakesNoSenseIsRefused) {
  const std::string file = output(".folded");
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--focus", "("}, {"--ignore", "a**"}, {"--hide", "[a"}, {"-p", "x"}, {"-G", "/a"}}) {
    const Ran ran = run({"convert", source_, option, value, "-o", file});
    EXPECT_EQ(ran.code, kExitUsage) << option;
    EXPECT_FALSE(std::filesystem::exists(file)) << option;
  }
  const Ran traces = run({"convert", source_, "--calls", "--focus", "a", "-o", file});
  EXPECT_EQ(traces.code, kExitUsage);
  EXPECT_THAT(traces.err, HasSubstr("traces of XRay"));
}

TEST_F(ConvertFiltersTest, ADirectoryHasTheProcessThatIsChosen) {
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", out_}).code, 0);
  (void)converted({out_.string(), "-p", "1"}, ".folded");
  EXPECT_EQ(samples_, 5);
  (void)converted({out_.string(), "-p", "2"}, ".pb.gz");
  EXPECT_EQ(samples_, 490);
  (void)converted({out_.string(), "-n", "work"}, ".html");
  EXPECT_EQ(samples_, 495);
}

// The daemon knows cgroups and children, which no label has.
TEST_F(ConvertFiltersTest, TheDaemonChoosesTheTargetOfAHistory) {
  give_random_profile();
  const auto expected = test::paths_of(test::traces_with(source_, "-focus='work_1$'"));
  const auto written =
      converted({"@1767362700..@1767362760", "-u", "nginx", "-G", "/a.slice", "--focus", "work_1$"},
                ".pb.gz");
  EXPECT_EQ(test::paths_of(test::traces_of(written)), expected);
  ASSERT_EQ(service_.exported.size(), 1U);
  EXPECT_EQ(service_.exported[0].target.units, std::vector<std::string>{"nginx.service"});
  EXPECT_EQ(service_.exported[0].target.cgroups, std::vector<std::string>{"/a.slice"});
  EXPECT_EQ(service_.exported[0].range,
            (TimeRange{.since_ms = 1'767'362'700'000, .until_ms = 1'767'362'760'000}));
}

TEST_F(ConvertFiltersTest, ASessionHasTheProcessThatIsChosen) {
  give_random_profile();
  const auto written = converted({"5f2c01ab", "-p", "103"}, ".pb.gz");
  EXPECT_EQ(test::paths_of(test::traces_of(written)),
            test::paths_of(test::traces_of_label(test::traces_of(source_), "pid", {"103"})));
}

}  // namespace
}  // namespace profd
