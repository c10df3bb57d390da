// profctl convert on real traces of an instrumented program
// (tests/formats/programs/xray_scenes.cc). Both pprofs and the counts of the program itself are the
// reference.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/json_text.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/ctl/ran.h"
#include "tests/formats/readers.h"
#include "tests/formats/xray/fdr_writer.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Arguments = std::vector<std::string>;

class ConvertTest : public ::testing::Test {
 protected:
  // Returns the counts of the program itself, by function.
  std::map<std::string, std::uint64_t> record(const std::string& scene, int rounds = 500) {
    std::istringstream lines(test::output_of(
        "(cd " + directory_.path().string() +
        " && XRAY_OPTIONS='patch_premain=false xray_logfile_base=trace.' " XRAY_SCENES " " + scene +
        " 2 " + std::to_string(rounds) +
        " 'func_duration_threshold_us=0 buffer_size=4096 buffer_max=4000' 2>/dev/null)"));
    std::map<std::string, std::uint64_t> calls;
    std::string name;
    for (std::uint64_t count = 0; lines >> name >> count;) calls[name] = count;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      if (entry.path().filename().string().starts_with("trace.")) traces_.push_back(entry.path());
    }
    return calls;
  }

  Ran convert(const Arguments& more, const std::string& binary = XRAY_SCENES) {
    Arguments arguments{"convert", "-o", out_};
    arguments.insert(arguments.end(), traces_.begin(), traces_.end());
    if (!binary.empty()) arguments.insert(arguments.end(), {"--binary", binary});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_with_socket("/nowhere", arguments);
  }

  // All files except the traces.
  [[nodiscard]] Arguments written() const {
    Arguments names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("trace.")) names.push_back(name);
    }
    return names;
  }

  test::ScratchDirectory directory_;
  std::string out_ = directory_.path() / "out";
  Arguments traces_;
};

TEST_F(ConvertTest, BothPprofsNameEveryFunctionOfAProfile) {
  record("calls");
  const Ran ran = convert({});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "profctl: 9000 calls by 2 threads in 3 stacks\n");
  const test::Report go = test::go_report(out_);
  EXPECT_GT(go.total, 0U);
  EXPECT_EQ(go.rows.at("outer").cumulative, go.total);
  EXPECT_EQ(go.rows.at("node").cumulative, go.rows.at("node").flat + go.rows.at("leaf").flat);
  EXPECT_EQ(go.rows.size(), 3U);
  const std::string perl = test::output_of("google-pprof --text " XRAY_SCENES " " + out_);
  EXPECT_THAT(perl, HasSubstr("Total: " + std::to_string(go.total) + " samples"));
  for (const char* name : {" outer\n", " node\n", " leaf\n"}) EXPECT_THAT(perl, HasSubstr(name));
}

TEST_F(ConvertTest, CountsOfCallsEqualThoseOfTheProgram) {
  for (const char* scene : {"exceptions", "tail", "recursion"}) {
    for (const std::string& old : traces_) fs::remove(old);
    traces_.clear();
    const auto calls = record(scene);
    ASSERT_EQ(convert({"--calls"}).code, 0);
    const test::Report report = test::go_report(out_);
    for (const auto& [name, count] : calls) EXPECT_EQ(report.rows.at(name).flat, count) << name;
    EXPECT_EQ(report.rows.size(), calls.size()) << scene;
  }
}

TEST_F(ConvertTest, FoldedStacksHaveNames) {
  record("tail");
  ASSERT_EQ(convert({"--format", "folded", "--calls"}).code, 0);
  EXPECT_EQ(test::read_file(out_), "jumping() 1000\nlanding() 1000\nlanding();leaf() 1000\n");
}

TEST_F(ConvertTest, ATimelineHasEveryRecord) {
  record("arguments");
  ASSERT_EQ(convert({"--format", "trace"}).code, 0);
  const auto parsed = parse_json(test::read_file(out_), 10);
  ASSERT_TRUE(parsed) << parsed.error().message;
  std::map<std::string, int> phases;
  int arguments = 0;
  for (const auto& event : parsed->at("traceEvents").as_array()) {
    ++phases[std::string(event.at("ph").as_string())];
    arguments += event.as_object().contains("args") ? 1 : 0;
  }
  EXPECT_EQ(phases, (std::map<std::string, int>{{"B", 1500}, {"E", 1500}}));
  EXPECT_EQ(arguments, 1000);
}

TEST_F(ConvertTest, TheExtensionOfTheOutputIsTheForm) {
  record("tail");
  out_ = directory_.path() / "out.folded";
  ASSERT_EQ(convert({"--calls"}).code, 0);
  EXPECT_EQ(test::read_file(out_), "jumping() 1000\nlanding() 1000\nlanding();leaf() 1000\n");
  out_ = directory_.path() / "out.json";
  ASSERT_EQ(convert({}).code, 0);
  EXPECT_THAT(test::read_file(out_), HasSubstr("traceEvents"));
  out_ = directory_.path() / "out.html";
  const Ran refused = convert({}, "");  // a trace is known by its content, too
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("convert to x.folded, then that file"));
}

TEST_F(ConvertTest, PrintsTheIssuesOfTheTraces) {
  record("exceptions");
  const Ran ran = convert({});
  EXPECT_THAT(ran.err, HasSubstr("4000 calls without an exit"));
  const Ran json = convert({"--json"});
  const auto parsed = parse_json(json.out, 10);
  ASSERT_TRUE(parsed) << json.out;
  EXPECT_EQ(parsed->at("issues").at("implied_exit").to_number<int>(), 4000);
  EXPECT_EQ(parsed->at("threads").to_number<int>(), 2);
  EXPECT_EQ(json.err, "");
}

TEST_F(ConvertTest, FunctionsOfNoBinaryAreNamedByTheirNumber) {
  record("calls");
  const Ran ran = convert({}, "");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("3 functions not found in the binaries"));
  const test::Report report = test::go_report(out_);
  EXPECT_EQ(
      report.rows.at("xray:1").flat + report.rows.at("xray:2").flat + report.rows.at("xray:3").flat,
      report.total);
}

TEST_F(ConvertTest, AnotherProgramIsRefusedUnlessForced) {
  xray::Writer writer({});
  writer.preamble({1, 2, 1'000, 1'000, 0});
  writer.function(xray::Action::kEnter, 4711, 0);
  writer.function(xray::Action::kExit, 4711, 5'000);
  traces_ = {directory_.write(
      "trace.other",
      xray::encode_header({{}, true, true, 1'000'000'000, 4096}) + writer.take_buffer())};
  const Ran refused = convert({});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("did not write this trace"));
  EXPECT_THAT(refused.err, HasSubstr("4711"));
  EXPECT_THAT(written(), IsEmpty());
  const Ran forced = convert({"--force", "--format", "folded"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(test::read_file(out_), "xray:4711 5000\n");
}

TEST_F(ConvertTest, TracesOfDifferentProcessesAreRefusedUnlessForced) {
  for (const std::int32_t process : {1, 3}) {
    xray::Writer writer({});
    writer.preamble({process, 2, 1'000, 1'000, 0});
    writer.function(xray::Action::kEnter, 1, 0);
    writer.function(xray::Action::kExit, 1, 5'000);
    traces_.push_back(directory_.write(
        "trace." + std::to_string(process),
        xray::encode_header({{}, true, true, 1'000'000'000, 4096}) + writer.take_buffer()));
  }
  const Ran refused = convert({}, "");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("different processes"));
  EXPECT_THAT(written(), IsEmpty());
  const Ran forced = convert({"--force", "--format", "folded"}, "");
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(test::read_file(out_), "xray:1 10000\n");
}

TEST_F(ConvertTest, ATimelineOfCallCountsIsRefused) {
  record("calls");
  const Ran refused = convert({"--format", "trace", "--calls"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--calls"));
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(ConvertTest, AnUnknownFormatIsRefused) {
  const Ran refused = convert({"trace.any", "--format", "svg"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("prof, folded or trace, and not svg"));
  const Ran unknown = convert({"trace.any", "--format", "png"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("invalid --format 'png'"));
}

TEST_F(ConvertTest, AnotherBuildIdIsRefused) {
  record("calls");
  const Ran refused = convert({"--build-id", "00c0ffee"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("not 00c0ffee"));
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(ConvertTest, AFileThatIsNotATraceIsNamedInTheError) {
  const std::string fifo = directory_.path() / "trace.fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string header = xray::encode_header({{}, true, true, 1, 1});
  const xray::Format unknown{6, std::endian::little};
  struct Case {
    std::string path;
    int code;
    const char* message;
  };
  for (const Case& refused :
       {Case{directory_.path() / "trace.absent", 4, "No such file"},
        Case{directory_.write("trace.text", std::string(100, 'x')), 1, "not an XRay trace"},
        Case{directory_.write("trace.empty", ""), 1, "not an XRay trace"},
        Case{directory_.write("trace.header", header), 1, "no records"},
        Case{directory_.write("trace.new", xray::encode_header({unknown, true, true, 1, 1})), 1,
             "version 6"},
        Case{"/proc/self/status", 2, "the kernel makes"}, Case{fifo, 2, "not a regular file"},
        Case{directory_.path(), 2, "not a regular file"}}) {
    traces_ = {refused.path};
    const Ran ran = convert({});
    EXPECT_EQ(ran.code, refused.code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(refused.message));
    EXPECT_THAT(ran.err, HasSubstr(refused.path));
    EXPECT_THAT(written(), IsEmpty());
  }
}

TEST_F(ConvertTest, ABinaryThatIsNotInstrumentedIsRefused) {
  record("calls");
  EXPECT_THAT(convert({}, "/bin/true").err, HasSubstr("not instrumented"));
  EXPECT_THAT(convert({}, "/proc/self/status").err, HasSubstr("the kernel makes"));
  EXPECT_THAT(convert({}, traces_.front()).err, StartsWith("profctl: " + traces_.front()));
}

TEST_F(ConvertTest, AMalformedTraceGivesTheRest) {
  record("calls");
  std::string bytes = test::read_file(traces_.front());
  bytes.resize(bytes.size() - 5);
  bytes.replace(bytes.size() / 2, 16, 16, '\xff');
  directory_.write(fs::path(traces_.front()).filename(), bytes);
  const Ran ran = convert({});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, ContainsRegex("malformed buffers?: "));
  EXPECT_THAT(ran.err, ContainsRegex("incomplete buffers?"));
  EXPECT_TRUE(decode_gperftools(test::read_file(out_)));
}

TEST_F(ConvertTest, TheOutputIsReplacedCompletelyOrNotAtAll) {
  record("calls");
  directory_.write("out", "before");
  const Ran refused = convert({"--build-id", "00"});
  EXPECT_EQ(test::read_file(out_), "before");
  ASSERT_EQ(convert({}).code, 0) << refused.err;
  EXPECT_TRUE(decode_gperftools(test::read_file(out_)));
  EXPECT_EQ(written(), Arguments{"out"});
  out_ = directory_.path() / "absent" / "out";
  EXPECT_THAT(convert({}).err, HasSubstr("could not write to"));
}

TEST_F(ConvertTest, ADashIsStandardOutput) {
  record("calls");
  const std::string text =
      test::output_of(PROFCTL " convert " + traces_.front() +
                      " --binary " XRAY_SCENES " --format folded --calls -o - 2>/dev/null");
  EXPECT_THAT(text, StartsWith("outer() 1000\nouter();node() 4000\nouter();node();leaf() 4000\n"));
}

TEST_F(ConvertTest, TheCommandLineIsChecked) {
  for (const Arguments& arguments :
       {Arguments{"convert"}, Arguments{"convert", "x"}, Arguments{"convert", "-o", "y"},
        Arguments{"convert", "x", "-o", "y", "--format", "png"}}) {
    const Ran ran = run_with_socket("/nowhere", arguments);
    EXPECT_EQ(ran.code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace profd
