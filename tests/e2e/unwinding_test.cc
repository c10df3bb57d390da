// Stacks of programs as distributions build them: without frame pointers, and from their first
// sample on.

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/gperftools_reader.h"
#include "tests/e2e/recording.h"
#include "tests/formats/readers.h"

namespace profd::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::SizeIs;

class UnwindingTest : public RecordingTest {
 protected:
  // Until a file's tables are made, what is kept to unwind a stack late is of one stack, and
  // callbacks has another one for its signal handler.
  void make_tables_of_callbacks();
};

struct Stacks {
  std::uint64_t user = 0;
  std::uint64_t complete = 0;
  CountsByReason incomplete;
};

Stacks stacks_of(const SessionSummary& summary, const std::string& comm) {
  Stacks stacks;
  for (const ProfileSummary& profile : profiles_of(summary, comm)) {
    stacks.user += profile.user_samples;
    stacks.complete += profile.complete_samples;
    for (const auto& [reason, count] : profile.incomplete) stacks.incomplete[reason] += count;
  }
  return stacks;
}

// At least 99 in 100; that almost all are is the benches' to show.
void expect_complete(const Stacks& stacks, const std::string& what, double share = 0.99) {
  EXPECT_GE(stacks.user, 100U) << what;
  EXPECT_GE(static_cast<double>(stacks.complete), share * static_cast<double>(stacks.user))
      << what << ": " << testing::PrintToString(stacks.incomplete);
}

void UnwindingTest::make_tables_of_callbacks() {
  EXPECT_TRUE(eventually([&] {
    const SessionSummary summary = record({"-F", "499"}, {workload("callbacks"), "0.3"});
    const Stacks stacks = stacks_of(summary, "callbacks");
    std::filesystem::remove_all(output_);
    return stacks.user > 0 && !stacks.incomplete.contains("window");
  }));
}

struct Program {
  std::string comm;
  Args command;
};

std::vector<Program> programs() {
  const auto shell = [](const std::string& script) { return Args{"/bin/sh", "-c", script}; };
  return {
      {"callbacks", {workload("callbacks"), "2"}},
      {"depth_no_frame_", {workload("depth_no_frame_pointers"), "2", "60"}},
      {"depth_stripped_", {workload("depth_stripped_static"), "2", "60"}},
      {"python3",
       {"/usr/bin/python3", "-c",
        "import time\nend = time.time() + 2\n"
        "def f(n): return sum(range(9999)) if n == 0 else f(n - 1) + 1\n"
        "while time.time() < end: f(200)\n"}},
      {"perl",
       {"perl", "-e",
        "$end = time + 2; sub f { my $n = shift; $n ? f($n - 1) + 1 : scalar sort map { $_ * 7 % "
        "1009 } 1..999 } no warnings; f(30) while time < $end"}},
      {"xz", shell("head -c 3000000 $(readlink -f /usr/bin/python3) | xz -6 -c >/dev/null")},
      {"openssl",
       {"openssl", "speed", "-seconds", "1", "-bytes", "8192", "sha256", "aes-128-cbc",
        "ecdsap256"}},
      {"sh", shell("for i in $(seq 6000); do /bin/true; done")},  // by vfork()
      {"git",
       shell("git init -q . && for i in $(seq 120); do seq $((i * 300)) $((i * 300 + 3000)) >f$i; "
             "done && git add . && git -c user.name=a -c user.email=a@b commit -qm one && for i "
             "in 1 2 3 4 5; do git -c pack.threads=1 repack -adfq --window=50; done")},
  };
}

TEST_F(UnwindingTest, StacksOfDistributionBuildsAreComplete) {
  make_tables_of_callbacks();
  for (const Program& program : programs()) {
    Process::Options in_a_place_of_its_own;
    in_a_place_of_its_own.directory = directory_.path();
    const SessionSummary summary = record({"-F", "499"}, program.command, in_a_place_of_its_own);
    expect_complete(stacks_of(summary, program.comm), program.comm);
    std::filesystem::remove_all(output_);
  }
}

TEST_F(UnwindingTest, StacksOfGoProgramsAreComplete) {
  for (const std::string name : {"goroutines", "goroutines_stripped"}) {
    const SessionSummary summary = record({"-F", "499"}, {workload(name), "2", "30"});
    // By frame pointers, which a function's first and last instructions have not set: 1 to 2 in
    // 100.
    expect_complete(stacks_of(summary, name.substr(0, 15)), name, 0.95);
    std::filesystem::remove_all(output_);
  }
}

TEST_F(UnwindingTest, FunctionsWithoutFramePointersAreAllNamed) {
  make_tables_of_callbacks();
  const SessionSummary summary = record({"-F", "499"}, {workload("callbacks"), "2"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "callbacks");
  ASSERT_THAT(profiles, SizeIs(1));
  const Report report = go_pprof(file(profiles[0]));
  for (const char* name : {"main", "_start"}) {
    ASSERT_TRUE(report.cumulative.contains(name)) << report.text;
    EXPECT_GE(report.cumulative.at(name), 99) << name << "\n" << report.text;
  }
}

// Each of them a process of its own, gone long before its table is made.
TEST_F(UnwindingTest, ProcessesOfAFewMillisecondsAreCompleteFromTheirFirstSample) {
  const std::filesystem::path copy = directory_.path() / "brief";
  std::filesystem::copy_file(workload("depth_no_frame_pointers"), copy);
  const SessionSummary summary =
      record({"-F", "999"},
             {"/bin/sh", "-c", "for i in $(seq 40); do " + copy.string() + " 0.02 25; done"});
  expect_complete(stacks_of(summary, "brief"), "brief");
}

TEST_F(UnwindingTest, A32BitProcessIsCountedAsSuch) {
  const Process spinner({workload("spin_32_bit")});
  const Ended ended = daemon_.profctl(
      {"record", "-F", "499", "-d", "1s", "-o", output_, "-p", std::to_string(spinner.pid())});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const Stacks stacks = stacks_of(read_summary(output_), "spin_32_bit");
  EXPECT_GT(stacks.user, 0U);
  EXPECT_EQ(stacks.complete, 0U);
  EXPECT_THAT(stacks.incomplete, ElementsAre(Key("32_bit")));
}

TEST_F(UnwindingTest, StatusTellsOfTablesAndCompleteStacks) {
  record({"-F", "499"}, {workload("callbacks"), "1"});
  const StatusInfo::Unwinding unwinding = daemon_.status().unwinding;
  EXPECT_GT(unwinding.complete_samples, 0U);
  EXPECT_EQ(unwinding.complete_samples + sum_of(unwinding.incomplete), unwinding.user_samples);
  EXPECT_GT(unwinding.tables.count, 0U);
  EXPECT_GT(unwinding.tables.rows, 1000U);
  EXPECT_LE(unwinding.tables.bytes, unwinding.tables.arena_bytes);
  EXPECT_LE(unwinding.tables.arena_bytes, unwinding.tables.cap_bytes);
  EXPECT_EQ(unwinding.deferred.waiting, 0U);
}

// Addresses as the profile has them: readers take 1 from all but the leaf's, so gdb's get 1 more
// where they are exact. Frames that gdb makes up from debug information (inlined, left by a tail
// call) are not on the stack.
std::vector<std::uint64_t> expected_callers(const std::string& gdb_output) {
  std::vector<std::uint64_t> callers;
  std::istringstream lines(gdb_output);
  bool is_leaf = true;
  bool after_signal = false;
  for (std::string mark, kind, pc; lines >> mark;) {
    if (mark != "FRAME" || !(lines >> kind >> pc)) continue;
    const bool is_signal = kind == "signal";
    if (!is_leaf) {
      callers.push_back(std::stoull(pc, nullptr, 16) + (is_signal || after_signal ? 1 : 0));
    }
    is_leaf = false;
    after_signal = is_signal;
  }
  return callers;
}

// gdb's own unwinder, of the thread that spins.
std::vector<std::uint64_t> callers_by_gdb(pid_t pid) {
  const std::string script = R"(
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    if gdb.newest_frame().name() != '(anonymous namespace)::spin': continue
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() == gdb.SIGTRAMP_FRAME: print('FRAME signal', hex(frame.pc()))
        if frame.type() == gdb.NORMAL_FRAME: print('FRAME normal', hex(frame.pc()))
        frame = frame.older()
)";
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "frames.py";
  std::ofstream(file) << script;
  const Ended ended =
      run({"gdb", "-batch", "-nx", "-p", std::to_string(pid), "-ex", "set backtrace past-main on",
           "-ex", "set backtrace past-entry on", "-ex", "source " + file.string()});
  EXPECT_EQ(ended.status, 0) << ended.err;
  return expected_callers(ended.out);
}

// Without the kernel's frames, which are above all user addresses, and the leaf, which is wherever
// the tick hit.
std::vector<std::uint64_t> user_callers(const Profile& profile, const Profile::Record& record) {
  std::vector<std::uint64_t> callers;
  for (const std::uint64_t pc : profile.pcs(record)) {
    if (pc >> 47 != 0) continue;
    callers.push_back(pc);
  }
  if (!callers.empty()) callers.erase(callers.begin());
  return callers;
}

// The profile's samples whose callers are those expected, in percent. Others may be cut short, but
// have no other frames.
double percent_as_expected(const Profile& profile, const std::vector<std::uint64_t>& expected) {
  std::uint64_t as_expected = 0;
  for (const Profile::Record& record : profile.records()) {
    const std::vector<std::uint64_t> callers = user_callers(profile, record);
    const auto difference = std::ranges::mismatch(callers, expected);
    EXPECT_EQ(difference.in1, callers.end()) << testing::PrintToString(callers) << "\n"
                                             << testing::PrintToString(expected);
    if (callers.size() == expected.size()) as_expected += record.count;
  }
  return 100 * static_cast<double>(as_expected) / static_cast<double>(profile.samples());
}

// At first its tables are made: what is kept to unwind a stack late is of one stack, and this
// program's are two.
TEST_F(UnwindingTest, AStackIsThatOfGdbFrameByFrame) {
  for (const std::string place : {"main", "thread"}) {
    SCOPED_TRACE(place);
    const Process process({workload("nest"), place});
    ASSERT_TRUE(eventually([&] { return process.out() == "ready\n"; }));
    const auto record = [&](const char* duration) {
      std::filesystem::remove_all(output_);
      const Ended ended = daemon_.profctl({"record", "-F", "499", "-d", duration, "-o", output_,
                                           "-p", std::to_string(process.pid())});
      EXPECT_EQ(ended.status, 0) << ended.err;
      return profiles_of(read_summary(output_), "nest");
    };
    ASSERT_TRUE(eventually([&] {
      const std::vector<ProfileSummary> first = record("200ms");
      return first.size() == 1 && first[0].incomplete.empty();
    }));
    const std::vector<ProfileSummary> profiles = record("1s");
    ASSERT_THAT(profiles, SizeIs(1));
    const std::vector<std::uint64_t> expected = callers_by_gdb(process.pid());
    EXPECT_GE(expected.size(), 15U) << "gdb saw all of it";
    const Profile profile = decode_gperftools(test::read_file(file(profiles[0]))).value();
    EXPECT_GE(percent_as_expected(profile, expected), 99);
    std::filesystem::remove_all(output_);
  }
}

using CallerCounts = std::map<std::vector<std::uint64_t>, std::uint64_t>;

// A blank line after each sample, and for each of its frames its place in its file, the leaf first.
// perf takes 1 from return addresses, and the profile does not.
CallerCounts callers_by_perf(const std::string& perf_script) {
  CallerCounts counts;
  std::vector<std::uint64_t> frames;
  std::istringstream lines(perf_script);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    if (std::uint64_t ip = 0; fields >> std::hex >> ip) {
      frames.push_back(frames.empty() ? ip : ip + 1);
    } else if (!frames.empty()) {
      frames.erase(frames.begin());
      ++counts[std::exchange(frames, {})];
    }
  }
  return counts;
}

CallerCounts callers_by_perf(pid_t pid) {
  const TemporaryDirectory directory;
  const std::string data = directory.path() / "perf.data";
  const Ended recorded =
      run({"perf", "record", "--quiet", "-e", "cpu-clock:u", "-F", "99", "--call-graph",
           "dwarf,16384", "-p", std::to_string(pid), "-o", data, "--", "sleep", "2"});
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  const Ended script = run({"perf", "script", "-i", data, "--no-inline", "-F", "ip"});
  EXPECT_EQ(script.status, 0) << script.err;
  return callers_by_perf(script.out);
}

// That of the most samples, and its share of them all in percent.
std::pair<std::vector<std::uint64_t>, double> commonest(const CallerCounts& counts) {
  if (counts.empty()) return {};
  std::uint64_t sum = 0;
  for (const auto& [callers, count] : counts) sum += count;
  const auto most = std::ranges::max_element(counts, {}, &CallerCounts::value_type::second);
  return {most->first, 100 * static_cast<double>(most->second) / static_cast<double>(sum)};
}

// Places in files, as perf tells them.
std::vector<std::uint64_t> offsets_of(const Profile& profile,
                                      const std::vector<std::uint64_t>& addresses) {
  std::vector<std::uint64_t> offsets;
  for (const std::uint64_t address : addresses) {
    for (const ProfileMapping& mapping : profile.mappings) {
      if (address < mapping.start || address >= mapping.end) continue;
      offsets.push_back(address - mapping.start + mapping.file_offset);
    }
  }
  return offsets;
}

// A program that stays at the bottom of one recursion, built without frame pointers.
TEST_F(UnwindingTest, AStackIsThatOfPerfsDwarfUnwinderFrameByFrame) {
  const Process process({workload("depth_no_frame_pointers"), "600", "60"});
  const auto [by_perf, share_by_perf] = commonest(callers_by_perf(process.pid()));
  ASSERT_GE(by_perf.size(), 60U);
  EXPECT_GE(share_by_perf, 90);
  const Ended ended = daemon_.profctl(
      {"record", "-F", "499", "-d", "1s", "-o", output_, "-p", std::to_string(process.pid())});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const SessionSummary summary = read_summary(output_);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  const Profile profile = decode_gperftools(test::read_file(file(summary.profiles[0]))).value();
  CallerCounts counts;
  for (const Profile::Record& record : profile.records()) {
    counts[offsets_of(profile, user_callers(profile, record))] += record.count;
  }
  const auto [ours, share] = commonest(counts);
  EXPECT_EQ(ours, by_perf);
  EXPECT_GE(share, 90);
}

}  // namespace
}  // namespace profd::e2e
