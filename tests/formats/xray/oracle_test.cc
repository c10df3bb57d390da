// Real traces of an instrumented program (programs/xray_scenes.cc), compared with the program's own
// counts, and with llvm-xray where its output is right: with exceptions, but at most 16 buffers for
// a thread. llvm-xray also reads the traces of the test writer.

#include <fcntl.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "formats/xray/map.h"
#include "tests/formats/readers.h"
#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Counts = std::map<std::string, std::uint64_t>;

constexpr const char* kOneBuffer = "buffer_size=16777216 buffer_max=16";
constexpr const char* kSmallBuffers = "buffer_size=4096 buffer_max=4000";

struct Recorded {
  std::vector<std::string> traces;  // the files' names
  Counts calls;                     // by the program itself
};

class XrayOracle : public ::testing::Test {
 protected:
  Recorded record(const std::string& scene, int threads, int rounds, const std::string& options,
                  const std::string& threshold = "0") {
    const std::string printed = test::output_of(
        "(cd " + directory_.path().string() +
        " && XRAY_OPTIONS='patch_premain=false xray_logfile_base=trace. verbosity=0' " XRAY_SCENES
        " " +
        scene + " " + std::to_string(threads) + " " + std::to_string(rounds) +
        " 'func_duration_threshold_us=" + threshold + " " + options + "' 2>/dev/null)");
    Recorded recorded;
    std::istringstream lines(printed);
    std::string name;
    for (std::uint64_t calls = 0; lines >> name >> calls;) recorded.calls[name] = calls;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      recorded.traces.push_back(entry.path());
    }
    return recorded;
  }

  test::ScratchDirectory directory_;
};

ReadTrace read_files(const std::vector<std::string>& paths) {
  std::vector<std::string> bytes;
  for (const std::string& path : paths) bytes.push_back(test::read_file(path));
  return read_traces(bytes);
}

// The names of the map and the symbol table, by id.
std::vector<std::string> names_of_scenes() {
  const UniqueFd file(::open(XRAY_SCENES, O_RDONLY | O_CLOEXEC));
  const auto map = read_function_map(file.get());
  EXPECT_TRUE(map) << map.error().message;
  SymbolBudget budget;
  return map ? read_function_names(file.get(), *map, budget) : std::vector<std::string>{};
}

// "_Z5outerv" -> "outer".
std::string plain_name(const std::string& mangled) {
  const std::size_t digits = mangled.find_first_not_of("0123456789", 2);
  return mangled.substr(digits, std::stoul(mangled.substr(2)));
}

Counts calls_by_name(const Stacked& stacks) {
  const std::vector<std::string> names = names_of_scenes();
  Counts calls;
  for (const auto& [path, sums] : stacks) {
    const std::size_t id = std::stoul(path.substr(path.rfind(';') + 1));
    if (id == 0 || id > names.size()) {
      ADD_FAILURE() << "no function has the id " << id;
      continue;
    }
    calls[plain_name(names[id - 1])] += sums.calls;
  }
  return calls;
}

// Calls by stack ("1;2"), or inclusive times, in the form of llvm-xray.
Counts llvm_stacks(const std::string& trace, const std::string& what) {
  std::istringstream lines(
      test::output_of("(llvm-xray stack -k -all-stacks -stack-format=flame -aggregate-threads "
                      "-aggregation-type=" +
                      what + " " + trace + " 2>/dev/null)"));
  Counts stacks;
  for (std::string line; std::getline(lines, line);) {
    std::string path;  // "#1;#2; 17"
    for (const char c : line.substr(0, line.rfind("; "))) {
      if (c != '#') path.push_back(c);
    }
    stacks[path] = std::stoull(line.substr(line.rfind(' ')));
  }
  return stacks;
}

Counts our_calls(const Stacked& stacks) {
  Counts calls;
  for (const auto& [path, sums] : stacks) calls[path] = sums.calls;
  return calls;
}

Counts our_times(const Stacked& stacks) {
  Counts times;
  for (const auto& [path, sums] : stacks) {
    times[path] += sums.self;
    for (std::size_t end = path.rfind(';'); end != path.npos; end = path.rfind(';', end - 1)) {
      times[path.substr(0, end)] += sums.self;
    }
  }
  return times;
}

// Whether the preamble of each buffer, with its thread and first ticks, is in the file once. A
// runtime that lists a released buffer in the slot of another one has lost the other one
// (formats/xray/fdr_format.h), so no reader can find it.
bool is_whole(const std::string& trace) {
  constexpr std::size_t kPreambleBytes = 4 * kMetadataBytes;
  std::set<std::string> preambles;
  for (std::size_t at = kHeaderBytes; at + kMetadataBytes + kPreambleBytes <= trace.size();) {
    std::uint64_t bytes = 0;  // of BUFFER_EXTENTS
    std::memcpy(&bytes, trace.data() + at + 1, sizeof bytes);
    at += kMetadataBytes;
    if (!preambles.insert(trace.substr(at, kPreambleBytes)).second) return false;
    at += bytes;
  }
  return true;
}

class EveryScene : public XrayOracle, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(XrayOracle, EveryScene,
                         ::testing::Values("calls", "arguments", "tail", "recursion", "exceptions",
                                           "longjmp", "cpus"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(EveryScene, HasTheStacksAndTimesOfLlvmXray) {
  const Recorded recorded = record(GetParam(), 2, 300, kOneBuffer);
  ASSERT_EQ(recorded.traces.size(), 1U);
  const ReadTrace read = read_files(recorded.traces);
  EXPECT_GT(read.report.entries, 0U);
  EXPECT_EQ(our_calls(read.stacks), llvm_stacks(recorded.traces[0], "count"));
  EXPECT_EQ(our_times(read.stacks), llvm_stacks(recorded.traces[0], "time"));
}

TEST_P(EveryScene, HasTheCallsThatTheProgramCounted) {
  Recorded recorded;
  for (int tries = 0; tries < 20; ++tries) {
    for (const std::string& lost : recorded.traces) fs::remove(lost);
    recorded = record(GetParam(), 3, 2000, kSmallBuffers);
    ASSERT_EQ(recorded.traces.size(), 1U);
    if (is_whole(test::read_file(recorded.traces[0]))) break;
  }
  ASSERT_TRUE(is_whole(test::read_file(recorded.traces[0]))) << "XRay's runtime lost buffers";
  const ReadTrace read = read_files(recorded.traces);
  EXPECT_GT(read.report.buffers, 20U);
  EXPECT_EQ(calls_by_name(read.stacks), recorded.calls);
  EXPECT_EQ(read.report[Issue::kLateRoot], 0U);
  EXPECT_EQ(read.report[Issue::kClockStep], 0U);
}

// llvm-xray refuses such a trace: the runtime cuts buffers with typed events.
TEST_F(XrayOracle, TypedEventsLoseOnlyWhatTheRuntimeCut) {
  const Recorded recorded = record("typed", 1, 100, kOneBuffer);
  const ReadTrace read = read_files(recorded.traces);
  // Two calls a round; 16 bytes, two records, were cut for each.
  EXPECT_EQ(read.report.typed_events, read.report.entries / 2);
  EXPECT_GT(read.report.typed_events, 50U);
  EXPECT_EQ(read.report[Issue::kGap], 1U);
}

// Both files of a fork. The child's file has its parent's buffers, too.
TEST_F(XrayOracle, TheTwoTracesOfAForkAreReadAsOne) {
  const Recorded recorded = record("fork", 1, 500, kSmallBuffers);
  ASSERT_EQ(recorded.traces.size(), 2U);
  const ReadTrace read = read_files(recorded.traces);
  Counts expected = recorded.calls;
  for (auto& [name, calls] : expected) calls *= 2;  // the child's rounds, which it doesn't print
  EXPECT_EQ(calls_by_name(read.stacks), expected);
  EXPECT_GT(read.report[Issue::kDuplicate], 0U);
}

// Few buffers that are used repeatedly. The remaining stacks are complete, except for calls that
// had begun before them.
TEST_F(XrayOracle, RecycledBuffersLoseNoStacks) {
  const Recorded recorded = record("calls", 1, 5000, "buffer_size=4096 buffer_max=4");
  const ReadTrace read = read_files(recorded.traces);
  for (const auto& [path, sums] : read.stacks) {
    EXPECT_THAT(path, ::testing::MatchesRegex("[0-9]+(;[0-9]+)?(;[0-9]+)?")) << sums;
  }
  EXPECT_EQ(read.stacks.size(), 3U);
  EXPECT_LE(read.report[Issue::kLateRoot], 3U);
}

TEST_F(XrayOracle, TimeOfCallsBelowTheThresholdCountsForTheCaller) {
  const Recorded recorded = record("durations", 1, 1000, kOneBuffer, "5");
  const ReadTrace read = read_files(recorded.traces);
  const Counts calls = calls_by_name(read.stacks);
  for (const auto& [name, count] : calls) EXPECT_LE(count, recorded.calls.at(name)) << name;
  // llvm-xray refuses a trace without calls, which a quiet machine would leave of short ones alone.
  EXPECT_EQ(calls.at("lasting"), recorded.calls.at("lasting"));
  EXPECT_EQ(our_calls(read.stacks), llvm_stacks(recorded.traces[0], "count"));
}

TEST_F(XrayOracle, TheMapIsTheOneOfLlvmXray) {
  const std::string yaml = test::output_of("llvm-xray extract -symbolize " XRAY_SCENES);
  const UniqueFd file(::open(XRAY_SCENES, O_RDONLY | O_CLOEXEC));
  const auto map = read_function_map(file.get());
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_THAT(yaml, Not(HasSubstr("{ id: " + std::to_string(map->functions.size() + 1) + ",")));
  for (std::size_t i = 0; i < map->functions.size(); ++i) {
    std::ostringstream line;
    line << "{ id: " << i + 1 << ", address: 0x" << std::hex << std::uppercase
         << map->functions[i].address << ", function: 0x" << map->functions[i].address << ", ";
    EXPECT_THAT(yaml, HasSubstr(line.str()));
  }
}

TEST_F(XrayOracle, LlvmXrayReadsTheTracesOfTheTestWriter) {
  const Format format{5, std::endian::little};
  Writer writer(format);
  writer.preamble({77, 78, 5'000'007'000, 1'000'000, 3});
  writer.function(Action::kEnterWithArguments, 1, 0);
  writer.argument(99);
  writer.custom_event("hello", 30);
  writer.ticks(2'000'000);
  writer.function(Action::kTailExit, 1, 10);
  const auto path =
      directory_.write("written", encode_header(header_of(format)) + writer.take_buffer());
  EXPECT_EQ(test::output_of("llvm-xray fdr-dump " + path.string()),
            "<Buffer: size = 133 bytes>\n"
            "<Thread ID: 78>\n"
            "<Wall Time: seconds = 5.000007>\n"
            "<PID: 77>\n"
            "<CPU: id = 3, tsc = 1000000>\n"
            "<Function Enter With Arg: #1 delta = +0>\n"
            "<Call Argument: data = 99 (hex = 0x63)>\n"
            "<Custom Event: delta = +30, size = 5, data = 'hello'>\n"
            "<TSC Wrap: base = 2000000>\n"
            "<Function Tail Exit: #1 delta = +10>\n");
}

}  // namespace
}  // namespace profd::xray
