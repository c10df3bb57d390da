// Python functions by name, in profiles of real programs: Debian's python3, or the interpreter that
// PROFD_TEST_PYTHON has. What is expected comes from the programs themselves: the interpreter's own
// view of its stacks (sys._getframe), clocks of threads, and names of threads.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "bpf/interpreter_abi.h"
#include "daemon/history/window_file.h"
#include "tests/e2e/off_cpu_rows.h"
#include "tests/e2e/python_fixture.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kPoints = 3;          // that a share may be off
constexpr double kNamedShare = 0.999;  // of the stacks with a loop

double share_in_percent(double part, double whole) { return 100 * part / whole; }

double share_of(std::int64_t part, std::int64_t whole) {
  return share_in_percent(static_cast<double>(part), static_cast<double>(whole));
}

// The largest profile is that of the program: `env` and the like have less.
ProfileSummary largest(const SessionSummary& summary) {
  const auto found = std::ranges::max_element(summary.profiles, {}, &ProfileSummary::samples);
  if (found != summary.profiles.end()) return *found;
  ADD_FAILURE() << "the session has no profile";
  return {};
}

// A walk that loses frames of one kind, or gives them to another function, changes the shares.
TEST_F(PythonTest, SharesAreThoseOfTheFunctions) {
  const PythonSamples samples = record_python({"-F", "1999"}, python_command("shares.py", {"3"}));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  for (const PythonCase& one : truth.cases) {
    EXPECT_NEAR(samples.flat(one.name), share_in_percent(one.ns, truth.total_ns()), kPoints)
        << one.name;
  }
  const std::string caller = truth.minor >= 11 ? "Worker.round" : "round";
  EXPECT_GE(samples.cumulative(caller), 92);
  EXPECT_GE(samples.cumulative("<module>"), 92);
  EXPECT_GE(samples.named_share(), kNamedShare);
  EXPECT_THAT(recorded_.err, Not(HasSubstr("-X perf"))) << "a switch that nobody needs";
  const auto& all = samples.all();
  EXPECT_TRUE(std::ranges::all_of(all, [](const PythonSample& sample) {
    return sample.python.empty() || sample.label("runtime") == "python";
  }));
}

// gperftools' format has the functions in an image of the process, and profile.proto by name.
TEST_F(PythonTest, BothFormatsAndBothPprofsHaveTheFunctions) {
  const SessionSummary summary = record({"-F", "1999"}, python_command("shares.py", {"3"}));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  const fs::path profile = file(largest(summary));
  const fs::path named = next_file();
  Args args{"record", "-F", "1999", "-o", named, "--"};
  const Args command = python_command("shares.py", {"3"});
  args.insert(args.end(), command.begin(), command.end());
  EXPECT_EQ(daemon_.profctl(args).status, 0);
  for (const Report& report :
       {go_pprof(profile), perl_pprof("/usr/bin/env", profile), go_pprof(named)}) {
    for (const PythonCase& one : truth.cases) {
      ASSERT_TRUE(report.cumulative.contains(one.name)) << report.text;
      EXPECT_NEAR(report.cumulative.at(one.name), share_in_percent(one.ns, truth.total_ns()),
                  kPoints)
          << report.text;
    }
  }
  for (const fs::path& one : {profile, named}) {
    const Ended listed = run({GO_PPROF_BINARY, "-symbolize=local", "-list=work_f", one});
    EXPECT_THAT(listed.out, HasSubstr("shares.py")) << listed.err;
    EXPECT_THAT(listed.out, ContainsRegex("[0-9]m?s +[0-9]+: +total \\+= i"));
  }
  EXPECT_THAT(slurp(output_ / "session.json"), HasSubstr("\"interpreted\""));
}

struct StackCase {
  const char* workload;
  Args arguments;
};

void PrintTo(const StackCase& one, std::ostream* out) { *out << one.workload; }

class PythonStacksTest : public PythonTest, public ::testing::WithParamInterface<StackCase> {};

// Each frame with its name and its line, from the leaf to `<module>`, and nothing else: a frame
// that is left out, one too many, another order, and a line of another instruction fail it. Below
// the frames that an activation of the loop runs lies that activation.
TEST_P(PythonStacksTest, AreThoseOfTheInterpreterWithTheirLines) {
  const StackCase& one = GetParam();
  const PythonSamples samples =
      record_python({"-F", "499"}, python_command(one.workload, one.arguments));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  const ExpectedStacks expected(truth);
  std::int64_t judged = 0;
  std::map<std::string, std::int64_t> by_leaf;
  for (const PythonSample& sample : samples.all()) {
    const NamesAndLines stack = names_and_lines(sample.python);
    if (!expected.is_judged(stack)) continue;
    judged += sample.samples;
    by_leaf[stack.front().first] += sample.samples;
    ASSERT_TRUE(expected.is_right(stack))
        << text_of_stack(stack) << "\n not" << expected.text_of_expected(stack) << "\n"
        << sample.text();
  }
  EXPECT_GE(share_of(judged, samples.total()), 85);
  for (const PythonCase& expected_case : truth.cases) {
    EXPECT_GT(by_leaf[expected_case.name], 20) << expected_case.name;
  }
  EXPECT_GE(samples.named_share(), kNamedShare);
  std::printf("%s: %lld samples, all of the %zu stacks\n", one.workload,
              static_cast<long long>(judged), truth.cases.size());
}

TEST_P(PythonStacksTest, EndEachSegmentInItsLoop) {
  const StackCase& one = GetParam();
  const PythonSamples samples =
      record_python({"-F", "499"}, python_command(one.workload, one.arguments));
  std::int64_t good = 0;
  std::int64_t bad = 0;
  std::string first_bad;
  for (const PythonSample& sample : samples.all()) {
    for (std::size_t i = 0; i < sample.places.size(); ++i) {
      const std::size_t next = sample.places[i] + 1;
      const bool goes_on = i + 1 < sample.places.size() && sample.places[i + 1] == next;
      if (goes_on) continue;
      const bool is_loop =
          next < sample.names.size() && sample.names[next] == "_PyEval_EvalFrameDefault";
      (is_loop ? good : bad) += sample.samples;
      if (!is_loop && first_bad.empty()) first_bad = sample.text();
    }
  }
  EXPECT_GT(good, 500);
  EXPECT_LE(share_of(bad, good + bad), 0.1) << first_bad;
}

INSTANTIATE_TEST_SUITE_P(Workloads, PythonStacksTest,
                         ::testing::Values(StackCase{"callbacks.py", {}},
                                           StackCase{"generators.py", {}},
                                           StackCase{"lines.py", {}},
                                           StackCase{"c_callbacks.py", {PYTHON_CALL_BACK}}));

// Each loop in a stack has its segment, and each segment its loop. A range of the loop's code that
// is too small, and an anchor that is passed by, are counted.
TEST_F(PythonTest, LoopsAndSegmentsArePaired) {
  auto before = interpreter_losses(daemon_);
  const PythonSamples samples = record_python({"-F", "999"}, python_command("callbacks.py"));
  auto after = interpreter_losses(daemon_);
  const auto stacks = static_cast<std::uint64_t>(samples.with_loop());
  for (const char* reason : {"unanchored", "loops_without_segment", "disordered", "not_code",
                             "state_mismatch", "unreadable"}) {
    EXPECT_LE(after[reason] - before[reason], stacks / 1'000) << reason;
  }
}

// Between the caller and the callee of a C library lie the library's own frames.
TEST_F(PythonTest, FramesOfALibraryLieBetweenSegments) {
  const PythonSamples samples =
      record_python({"-F", "499"}, python_command("c_callbacks.py", {PYTHON_CALL_BACK}));
  std::int64_t in_order = 0;
  for (const PythonSample& sample : samples.all()) {
    const auto place = [&](const std::string& name) {
      return std::ranges::find_if(
                 sample.names,
                 [&](const std::string& one) { return one == name || one.ends_with("." + name); }) -
             sample.names.begin();
    };
    const auto end = static_cast<std::ptrdiff_t>(sample.names.size());
    if (place("compare") == end) continue;
    EXPECT_LT(place("compare"), place("call_from_c")) << sample.text();
    EXPECT_LT(place("call_from_c"), place("compare_through_c")) << sample.text();
    EXPECT_LT(place("compare_through_c"), end) << sample.text();
    in_order += sample.samples;
  }
  EXPECT_GT(in_order, 200);
}

constexpr std::size_t kLeastDepth = 256;

// The leaf-most ones stay: as many as a stack may have, or as a walk has time for, which on a
// virtual machine may be fewer.
TEST_F(PythonTest, DeepStacksKeepTheirLeafMostFrames) {
  for (const std::size_t depth : {std::size_t{20}, std::size_t{200}, std::size_t{900}}) {
    SCOPED_TRACE(depth);
    const PythonSamples samples =
        record_python({"-F", "499"}, python_command("recursion.py", {std::to_string(depth)}));
    const PythonTruth truth = PythonTruth::parse(recorded_.out);
    const NamesAndLines whole = names_and_lines(truth.cases.front().stack);
    ASSERT_GT(whole.size(), depth);
    const std::size_t least = std::min(whole.size(), kLeastDepth);
    std::int64_t judged = 0;
    for (const PythonSample& sample : samples.all()) {
      const NamesAndLines stack = names_and_lines(sample.python);
      if (stack.empty() || stack.front() != whole.front()) continue;
      ASSERT_GE(stack.size(), least) << sample.text();
      ASSERT_LE(stack.size(), std::min(whole.size(), std::size_t{PROFD_MAX_INTERPRETED_FRAMES}));
      ASSERT_TRUE(std::equal(stack.begin(), stack.end(), whole.begin())) << text_of_stack(stack);
      judged += sample.samples;
    }
    EXPECT_GT(judged, 300);
  }
}

void expect_shares_of_truth(const PythonSamples& samples, const PythonTruth& truth) {
  ASSERT_FALSE(truth.cases.empty());
  double sum = 0;
  for (const PythonCase& one : truth.cases) sum += samples.cumulative(one.name);
  EXPECT_GE(sum, 90) << "the rest is the start of the interpreter";
  for (const PythonCase& one : truth.cases) {
    EXPECT_NEAR(share_in_percent(samples.cumulative(one.name), sum),
                share_in_percent(one.ns, truth.total_ns()), kPoints)
        << one.name;
  }
}

// A thread state of another thread would give its functions.
TEST_F(PythonTest, ThreadsHaveTheirOwnFunctions) {
  const PythonSamples samples = record_python({"-F", "999"}, python_command("threads.py"));
  expect_shares_of_truth(samples, PythonTruth::parse(recorded_.out));
  for (const PythonSample& sample : samples.all()) {
    const auto is_spin = [](const PythonFrame& frame) { return frame.name.starts_with("spin_"); };
    EXPECT_LE(std::ranges::count_if(sample.python, is_spin), 1) << sample.text();
  }
}

// `_Py_tss_tstate` is null then.
TEST_F(PythonTest, AThreadWithoutTheGilHasItsStack) {
  const PythonSamples samples = record_python({"-F", "999"}, python_command("nogil.py"));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  std::int64_t hashing = 0;
  for (const PythonSample& sample : samples.all()) {
    // A leaf in libcrypto or _sha2, whose callers are Python's.
    const bool is_native = !sample.python.empty() && sample.places.front() > 0;
    if (is_native && (sample.has("hash_first") || sample.has("hash_second"))) {
      hashing += sample.samples;
    }
  }
  EXPECT_GE(share_of(hashing, samples.total()), 75);
  expect_shares_of_truth(samples, truth);
}

// Functions that are freed, and others at their addresses. The thread's name is that of the
// function, so each sample judges itself. An id without one of its parts, and a number that is used
// again, fail it.
TEST_F(PythonTest, NoSampleHasTheNameOfAFunctionThatIsFreed) {
  const PythonSamples samples =
      record_python({"-F", "1999", "--threads"}, python_command("reuse.py", {"8"}));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  EXPECT_GT(truth.numbers.at("reused"), truth.numbers.at("calls") / 4) << recorded_.out;
  std::int64_t judged = 0;
  std::int64_t of_functions = 0;
  for (const PythonSample& sample : samples.all()) {
    const std::string thread = sample.label("thread");
    if (thread.starts_with("work_")) of_functions += sample.samples;
    for (const PythonFrame& frame : sample.python) {
      if (!frame.name.starts_with("work_")) continue;
      EXPECT_EQ(frame.name, thread) << sample.text();
      EXPECT_EQ(frame.file, "made.py") << sample.text();
      judged += sample.samples;
    }
  }
  EXPECT_GE(judged, 5'000);
  EXPECT_GE(share_of(judged, of_functions), 98);
  std::printf(
      "%lld of %lld samples named, none with another's name; %llu of %llu functions had a "
      "used address\n",
      static_cast<long long>(judged), static_cast<long long>(of_functions),
      static_cast<unsigned long long>(truth.numbers.at("reused")),
      static_cast<unsigned long long>(truth.numbers.at("calls")));
}

// At this frequency most of these processes have one or two samples.
TEST_F(PythonTest, TheFirstSamplesOfShortProcessesAreNamed) {
  std::string command;
  for (const std::string& word : python_command("short.py")) command += "'" + word + "' ";
  const std::string loop = "i=0; while [ $i -lt 300 ]; do " + command + "; i=$((i+1)); done";
  const PythonSamples samples = record_python({"-F", "49"}, {"sh", "-c", loop});
  EXPECT_GE(samples.with_loop(), 150);
  EXPECT_GE(samples.named_share(), 0.99);
  EXPECT_THAT(samples.functions(), ::testing::Contains("brief_work"));
}

// The child has the parent's addresses, and other functions at them.
TEST_F(PythonTest, AForkedChildHasItsOwnFunctions) {
  const PythonSamples samples = record_python({"-F", "999"}, python_command("fork.py"));
  const PythonTruth truth = PythonTruth::parse(recorded_.out);
  const PythonSamples parent = samples.of_pid(std::to_string(truth.numbers.at("parent")));
  const PythonSamples child = samples.of_pid(std::to_string(truth.numbers.at("child")));
  EXPECT_GE(parent.cumulative("work_of_parent"), 50);
  EXPECT_EQ(parent.cumulative("work_of_child"), 0);
  EXPECT_GE(child.cumulative("work_of_child"), 90);
  EXPECT_EQ(child.cumulative("work_of_parent"), 0);
  EXPECT_GE(child.cumulative("main"), 90);
}

// The stack of a block is walked when the thread leaves the CPU.
TEST_F(PythonTest, BlocksHavePythonFunctions) {
  const fs::path path = next_file();
  Args args{"record", "-e", "off-cpu", "-o", path, "--"};
  const Args command = python_command("sleeps.py");
  args.insert(args.end(), command.begin(), command.end());
  recorded_ = daemon_.profctl(args);
  ASSERT_EQ(recorded_.status, 0) << recorded_.err;
  const OwnWaits own = OwnWaits::parse(recorded_.out);
  const BlockRows rows = BlockRows::read(path);
  for (const char* function : {"sleep_often", "sleep_long", "wait_for_lock"}) {
    const OwnWait expected = own.function(function);
    EXPECT_NEAR(rows.in(function).ns, expected.ns, 0.05 * expected.ns) << function;
  }
}

// Another user's functions are in no profile of mine, and mine are named without root.
TEST_F(PythonTest, AUserHasNamesOfHisOwnProcessesAlone) {
  if (!test_python().front().starts_with("/usr/")) {
    GTEST_SKIP() << "NOT TESTED: other users. They may not run this interpreter";
  }
  fs::permissions(directory_.path(), fs::perms(01777));
  Args command = test_python();
  command.insert(command.end(), {"-c",
                                 "def secret_of_root():\n"
                                 "  while True: pass\n"
                                 "secret_of_root()"});
  const Process roots(command);
  Process::Options user;
  user.uid = kSomebody;
  user.directory = directory_.path();
  Args mine = test_python();
  mine.insert(mine.end(), {"-B", test::reachable_program(python_workload("shares.py")), "2"});
  const PythonSamples samples = record_python({"-F", "499"}, mine, user);
  EXPECT_GE(samples.cumulative("work_f"), 50);
  EXPECT_THAT(samples.functions(), Not(::testing::Contains("secret_of_root")));
  const Ended others = daemon_.profctl({"record", "-d", "1s", "--pid", std::to_string(roots.pid()),
                                        "-o", directory_.path() / "others.pb.gz"},
                                       user);
  EXPECT_NE(others.status, 0);
  EXPECT_THAT(others.err, Not(HasSubstr("secret_of_root")));
}

// The interpreter is in libpython, below a program's own frames.
TEST_F(PythonTest, AnInterpreterInsideAProgramIsRecognised) {
  const Args command{workload("python_embedded"), "3"};
  (void)record_python({"-F", "199"}, {workload("python_embedded"), "1"});  // its libpython is known
  const PythonSamples samples = record_python({"-F", "499"}, command);
  EXPECT_GE(samples.cumulative("embedded_work"), 85);
  std::int64_t above = 0;
  for (const PythonSample& sample : samples.all()) {
    if (!sample.has("embedded_work")) continue;
    const auto program = std::ranges::find(sample.names, "run_script");
    EXPECT_NE(program, sample.names.end()) << sample.text();
    const auto function = std::ranges::find(sample.names, "embedded_work");
    if (function < program) above += sample.samples;
  }
  EXPECT_GT(above, 500);
}

// A program that has no Python functions pays nothing, and has no losses of them.
TEST_F(PythonTest, OtherProgramsHaveNoPythonFrames) {
  const PythonSamples samples = record_python({"-F", "499"}, {workload("shares"), "1"});
  EXPECT_THAT(samples.functions(), IsEmpty());
  for (const PythonSample& sample : samples.all()) EXPECT_NE(sample.label("runtime"), "python");
}

void expect_pairs(const PythonSamples& samples, const PythonTruth& truth) {
  std::int64_t judged = 0;
  for (const PythonSample& sample : samples.all()) {
    const bool is_of_case = std::ranges::any_of(sample.python, [&](const PythonFrame& frame) {
      return std::ranges::any_of(truth.pairs,
                                 [&](const auto& pair) { return pair.second == frame.name; });
    });
    if (!is_of_case) continue;
    for (std::size_t i = 0; i + 1 < sample.python.size(); ++i) {
      const std::pair pair(sample.python[i + 1].name, sample.python[i].name);
      EXPECT_TRUE(truth.pairs.contains(pair) || !sample.python[i].name.starts_with("spin"))
          << pair.first << " -> " << pair.second << "\n"
          << sample.text();
    }
    judged += sample.samples;
  }
  EXPECT_GT(judged, 200);
}

// A chain that ends at its greenlet, and the C stacks of others below: nothing goes to another.
TEST_F(PythonTest, GreenletsHaveNoFramesOfOthers) {
  Args command = test_python();
  command.insert(command.end(), {"-c", "import greenlet"});
  if (run(command).status != 0) {
    ASSERT_FALSE(is_usual_python()) << "python3-greenlet is not installed";
    GTEST_SKIP() << "NOT TESTED: greenlets. This interpreter has none";
  }
  const PythonSamples samples = record_python({"-F", "499"}, python_command("greenlets.py"));
  expect_pairs(samples, PythonTruth::parse(recorded_.out));
}

TEST_F(PythonTest, ASubinterpreterHasItsOwnFunctions) {
  const Ended tried = run(python_command("subinterpreters.py"));
  if (tried.status == 77) {
    GTEST_SKIP() << "NOT TESTED: subinterpreters. This interpreter has no module for them";
  }
  const PythonSamples samples = record_python({"-F", "499"}, python_command("subinterpreters.py"));
  expect_shares_of_truth(samples, PythonTruth::parse(recorded_.out));
}

// Two methods in one sample: a trampoline is left out where the frame in front of it has its name
// and file, and stays where both disagree, or it is at another place than its frame.
TEST_F(PythonTest, TrampolinesOfPerfRepeatNoFrame) {
  if (test_python_minor() < 13) GTEST_SKIP() << "NOT TESTED: -X perf_jit needs 3.13";
  const PythonSamples samples =
      record_python({"-F", "499"}, python_command("perf_agrees.py", {"4"}, {"-X", "perf_jit"}));
  std::int64_t with_both = 0;
  std::string first;
  for (const PythonSample& sample : samples.all()) {
    const bool has_trampoline = std::ranges::any_of(
        sample.names, [](const std::string& name) { return name.starts_with("py::"); });
    if (!has_trampoline || sample.python.empty()) continue;
    with_both += sample.samples;
    if (first.empty()) first = sample.text();
  }
  EXPECT_LE(share_of(with_both, samples.total()), 1) << first;
  EXPECT_GE(samples.named_share(), 0.99);
}

// The history's windows, without any session.
TEST(PythonWindowsTest, HavePythonFunctions) {
  const TemporaryDirectory directory;
  const fs::path config = directory.path() / "profd.toml";
  std::ofstream(config) << "[continuous]\nenabled = true\nwindow = \"2s\"\nfrequency = 99\n";
  Daemon::Options options;
  options.arguments = {"--config", config};
  const Daemon daemon(std::move(options));
  const Process busy(python_command("shares.py", {"600"}));
  double share = 0;
  EXPECT_TRUE(eventually([&] {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(daemon.state() / "windows", absent)) {
      const std::string name = entry.path().filename();
      if (name.starts_with('.') || !name.ends_with(kWindowFileEnd)) continue;
      const PythonSamples samples =
          PythonSamples::read(entry.path()).of_pid(std::to_string(busy.pid()));
      share = std::max(share, samples.cumulative("work_f"));
    }
    return share > 50;
  })) << "work_f has "
      << share << " % at most";
}

}  // namespace
}  // namespace profd::e2e
