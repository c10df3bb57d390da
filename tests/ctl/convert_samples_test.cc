// profctl convert from each form of samples to each other one. What is written is read by others:
// both pprofs, and a reader of JSON.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/sample_losses.h"
#include "formats/api/session_summary.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/sample_times.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;
using Paths = std::map<std::string, std::int64_t>;

class ConvertSamplesTest : public testing::Test {
 protected:
  ConvertSamplesTest() {
    random_.add(200);
    source_ = scratch_.write("a.pb.gz", encode_pprof_gzip(random_.profile()));
  }

  Ran convert(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "convert");
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
  }
  // The file that is written, by its extension.
  std::filesystem::path converted(const std::string& source, const std::string& extension) {
    const std::filesystem::path file = scratch_.path() / ("out" + extension);
    const Ran ran = convert({source, "-o", file});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return file;
  }

  // A profile with the times of some samples, of which 20 others were lost.
  [[nodiscard]] std::string write_recording() const {
    SessionSummary summary;
    summary.session = "5f2c01ab";
    summary.started = "2026-01-02T03:04:05Z";
    summary.seconds = 60;
    summary.event = "cpu";
    summary.period_us = 10101;
    summary.ledger = {.taken = 30, .written = 10, .lost = {{"ring_full", 19}, {"slots", 1}}};
    for (const char* const reason : {"no_row", "window"}) {
      ProfileSummary process;
      process.pid = 7;
      process.comm = "work";
      process.path = "work.7.prof";
      process.user_samples = 4;
      process.incomplete = {{reason, 1}};
      summary.profiles.push_back(process);
    }
    PprofProfile profile = random_.profile();
    profile.own_data = to_json(summary);
    profile.time_ns = kStartNs;
    SampleTimes times{.until = 1000, .entries = {}};
    times.entries.reserve(profile.samples().size());
    for (std::uint32_t i = 0; i < profile.samples().size(); ++i) {
      times.entries.push_back({.sample = i, .tick = i, .count = 1});
    }
    profile.times = times;
    return scratch_.write("recording.pb.gz", encode_pprof_gzip(profile));
  }
  std::string said_of(const std::string& file) {
    return run_with_socket(scratch_.path() / "no-socket", {"report", file}).err;
  }

  static constexpr std::int64_t kStartNs = 1'767'323'045'000'000'000;  // 2026-01-02T03:04:05Z

  // With the command name of its process in front of each stack, as folded stacks have it.
  static std::vector<test::Trace> with_comm(std::vector<test::Trace> traces) {
    for (test::Trace& trace : traces) trace.stack.push_back(trace.labels.at("comm"));
    return traces;
  }

  test::ScratchDirectory scratch_;
  test::RandomProfile random_{23};
  std::string source_;
};

// Of lines "a;b 12".
Paths paths_of_folded(const std::string& text) {
  Paths paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    std::istringstream names(line.substr(0, blank));
    std::string path;
    for (std::string name; std::getline(names, name, ';');) {
      path += "/" + name;
      paths[path] += std::stoll(line.substr(blank));
    }
  }
  return paths;
}

// https://www.speedscope.app/file-format-schema.json: of all its profiles.
Paths paths_of_speedscope(const boost::json::value& file, std::int64_t weight_of_sample) {
  Paths paths;
  const auto& frames = file.at("shared").at("frames").as_array();
  for (const auto& profile : file.at("profiles").as_array()) {
    EXPECT_EQ(profile.at("type").as_string(), "sampled");
    const auto& weights = profile.at("weights").as_array();
    const auto& samples = profile.at("samples").as_array();
    EXPECT_EQ(samples.size(), weights.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::string path;
      for (const auto& frame : samples[i].as_array()) {
        const auto& name = frames.at(frame.to_number<std::size_t>()).at("name");
        path += "/" + boost::json::value_to<std::string>(name);
        paths[path] += weights[i].to_number<std::int64_t>() / weight_of_sample;
      }
    }
  }
  return paths;
}

TEST_F(ConvertSamplesTest, AProfileKeepsItsStacksAndLabels) {
  const auto original = test::traces_of(source_);
  const auto copy = test::traces_of(converted(source_, ".pb.gz"));
  EXPECT_EQ(test::paths_of(copy), test::paths_of(original));
  for (const char* label : {"comm", "user", "pid"}) {
    EXPECT_EQ(test::label_sums(copy, label), test::label_sums(original, label)) << label;
  }
  // Lines and files too.
  const std::string lines = std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                            " -symbolize=none -lines -top -nodecount=100000 ";
  const auto rows_of = [&](const std::string& file) {
    const std::string text = test::output_of(lines + file);
    return text.substr(text.find("flat  flat%"));
  };
  EXPECT_EQ(rows_of(scratch_.path() / "out.pb.gz"), rows_of(source_));
}

std::string protobuf_of(const std::filesystem::path& file) {
  auto protobuf = unpack_pprof(test::read_file(file));
  EXPECT_TRUE(protobuf) << file;
  return protobuf ? *protobuf : std::string();
}

// How many samples a command has in a tick, as profctl reads them: "program1 7".
std::map<std::string, std::uint64_t> ticks_of(const std::filesystem::path& file) {
  std::map<std::string, std::uint64_t> ticks;
  const auto samples = samples_of_pprof(protobuf_of(file));
  EXPECT_TRUE(samples && samples->times()) << file;
  if (!samples || !samples->times()) return ticks;
  for (const SampleTime& time : samples->times()->entries) {
    const SampleLabels& labels = samples->labels()[samples->rows()[time.sample].labels];
    ticks[std::string(samples->text(labels.comm)) + " " + std::to_string(time.tick)] += time.count;
  }
  return ticks;
}

// The lines in front of the samples: of period, time and duration.
std::string raw_head_of(const std::string& file) {
  const std::string raw = test::output_of(std::string("HOME=/nonexistent TZ=UTC ") +
                                          GO_PPROF_BINARY + " -symbolize=none -raw " + file);
  return raw.substr(0, raw.find("Samples:"));
}

TEST_F(ConvertSamplesTest, AProfileKeepsTheStartTheTimesAndTheLosses) {
  const std::string original = write_recording();
  const std::string copy = converted(original, ".pb.gz");
  EXPECT_THAT(said_of(original), HasSubstr("20 of 30 samples were lost"));
  EXPECT_EQ(said_of(copy), said_of(original));
  EXPECT_THAT(raw_head_of(original), HasSubstr("Time: 2026-01-02 03:04:05 "));
  EXPECT_EQ(raw_head_of(copy), raw_head_of(original));
  EXPECT_EQ(ticks_of(copy), ticks_of(original));
  const std::string protobuf = protobuf_of(copy);
  const auto losses = find_losses(protobuf);
  ASSERT_TRUE(losses);
  EXPECT_EQ(losses->written, 10U);
  EXPECT_EQ(losses->user_samples, 8U);
  EXPECT_EQ(by_reason(losses->lost), (CountsByReason{{"ring_full", 19}, {"slots", 1}}));
  EXPECT_EQ(by_reason(losses->incomplete), (CountsByReason{{"no_row", 1}, {"window", 1}}));
  // Without a word of the processes that are left out.
  const std::string part = scratch_.path() / "part.pb.gz";
  ASSERT_EQ(convert({original, "-n", "program1", "-o", part}).code, 0);
  EXPECT_EQ(said_of(part), said_of(original));
  // A source that says nothing of losses has none in its copy.
  EXPECT_EQ(said_of(converted(source_, ".pb.gz")), "");
}

TEST_F(ConvertSamplesTest, LossesOfSeveralSourcesAddUp) {
  const std::string original = write_recording();
  const std::string sum = scratch_.path() / "sum.pb.gz";
  ASSERT_EQ(convert({original, original, "-o", sum}).code, 0);
  EXPECT_THAT(said_of(sum), HasSubstr("40 of 60 samples were lost"));
  EXPECT_THAT(raw_head_of(sum), HasSubstr("Time: 2026-01-02 03:04:05 "));
  auto twice = ticks_of(original);
  for (auto& [tick, count] : twice) count *= 2;
  EXPECT_EQ(ticks_of(sum), twice);
}

TEST_F(ConvertSamplesTest, FoldedStacksHaveThePathsOfAllTraces) {
  const auto file = converted(source_, ".folded");
  const Paths expected = test::paths_of(with_comm(test::traces_of(source_)));
  EXPECT_EQ(paths_of_folded(test::read_file(file)), expected);
  // And back.
  EXPECT_EQ(test::paths_of(test::traces_of(converted(file, ".pb.gz"))), expected);
}

TEST_F(ConvertSamplesTest, SpeedscopeHasThePathsOfAllTraces) {
  const auto file = boost::json::parse(test::read_file(converted(source_, ".speedscope.json")));
  EXPECT_EQ(paths_of_speedscope(file, test::RandomProfile::kPeriodNs),
            test::paths_of(test::traces_of(source_)));
  EXPECT_EQ(file.at("$schema").as_string(), "https://www.speedscope.app/file-format-schema.json");
}

TEST_F(ConvertSamplesTest, TreesAreThoseOfFlameAndReport) {
  // The short names of these functions are their full ones.
  const Paths expected = test::paths_of(test::traces_of(source_));
  const std::string html = test::read_file(converted(source_, ".html"));
  EXPECT_EQ(test::paths_of_data(test::data_of_html(html)), expected);
  const auto tree = boost::json::parse(test::read_file(converted(source_, ".json")));
  EXPECT_EQ(tree.at("nodes").as_array().size(), expected.size());
  EXPECT_THAT(test::read_file(converted(source_, ".svg")), HasSubstr("<svg "));
}

TEST_F(ConvertSamplesTest, BothPprofsNameTheFunctionsOfAGperftoolsProfile) {
  const auto file = converted(source_, ".prof");
  const test::Report original = test::go_report(source_);
  for (const test::Report& report : {test::go_report(file), test::perl_report(file)}) {
    EXPECT_EQ(report.total, original.total);
    std::map<std::string, test::Row> rows;
    for (const auto& [name, row] : original.rows) rows[test::without_inline_mark(name)] = row;
    EXPECT_EQ(report.rows, rows);
  }
  // And back, by the names of the second file.
  EXPECT_EQ(test::paths_of(test::traces_of(converted(file, ".pb.gz"))),
            test::paths_of(test::traces_of(source_)));
}

TEST_F(ConvertSamplesTest, SeveralSourcesAreAddedUp) {
  test::RandomProfile other(5);
  other.add(100);
  const auto second = scratch_.write("b.pb.gz", encode_pprof_gzip(other.profile()));
  const auto file = scratch_.path() / "sum.pb.gz";
  ASSERT_EQ(convert({source_, second, "-o", file}).code, 0);
  Paths expected = test::paths_of(test::traces_of(source_));
  for (const auto& [path, samples] : test::paths_of(test::traces_of(second))) {
    expected[path] += samples;
  }
  EXPECT_EQ(test::paths_of(test::traces_of(file)), expected);
  // A source that is named twice counts twice.
  ASSERT_EQ(convert({second, second, "-o", file}).code, 0);
  expected = test::paths_of(test::traces_of(second));
  for (auto& [path, samples] : expected) samples *= 2;
  EXPECT_EQ(test::paths_of(test::traces_of(file)), expected);
}

TEST_F(ConvertSamplesTest, SourcesThatDoNotFitAreRefused) {
  const auto folded = scratch_.write("b.folded", "main;work 12\n");
  const Ran refused = convert({source_, folded, "-o", scratch_.path() / "sum.pb.gz"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("separately"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "sum.pb.gz"));
}

TEST_F(ConvertSamplesTest, WhatCannotBeWrittenSaysWhatToDo) {
  const auto out = [&](const char* name) { return (scratch_.path() / name).string(); };
  for (const auto& [arguments, message] : std::map<std::vector<std::string>, std::string>{
           {{source_, "-o", out("x.png")}, ".speedscope.json"},
           {{source_, "-o", out("x")}, "or --format"},
           {{source_, "-o", "-"}, "standard output needs a format"},
           {{source_, "-o", "-", "--format", "prof"}, "--format pprof"},
           {{source_, "-o", out("x.json"), "--format", "trace"}, "XRay"},
           {{scratch_.write("p.data", "PERFILE2xxxxxxxx"), "-o", out("x.html")}, "perf report"},
           {{scratch_.write("e.pb.gz", ""), "-o", out("x.html")}, "is empty"},
           {{scratch_.write("z.pb.gz", "\x1f\x8b\x08 cut"), "-o", out("x.html")}, "z.pb.gz"},
           {{scratch_.path() / "absent", "-o", out("x.html")}, "no file"}}) {
    const Ran ran = convert(arguments);
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_THAT(ran.err, HasSubstr("hint: "));
    EXPECT_FALSE(std::filesystem::exists(arguments[2]));
  }
}

TEST_F(ConvertSamplesTest, AnExistingFileIsReplacedByAWholeOneOnly) {
  const auto file = scratch_.write("x.html", "before");
  EXPECT_NE(convert({scratch_.write("e.pb.gz", ""), "-o", file}).code, 0);
  EXPECT_EQ(test::read_file(file), "before");
  EXPECT_EQ(convert({source_, "-o", file}).code, 0);
  EXPECT_THAT(test::read_file(file), HasSubstr("<!DOCTYPE html>"));
}

}  // namespace
}  // namespace profd
