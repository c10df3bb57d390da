// The names of JIT code from end to end: real runtimes, and a small JIT that reuses its addresses,
// are recorded by profd and profctl, and both pprofs show the names.

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/jit/jitdump_reader.h"
#include "tests/e2e/judged_stacks.h"
#include "tests/e2e/recording.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNamed = 0.995;  // the least share of the samples in JIT code

fs::path program(const std::string& name) {
  return fs::path(SOURCE_DIRECTORY) / "tests/e2e/programs" / name;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Removes what runtimes leave in /tmp.
void remove_files_of_runtime(pid_t pid) {
  const std::string text = std::to_string(pid);
  for (const std::string& name :
       {"perf-" + text + ".map", "jit-" + text + ".dump", ".java_pid" + text}) {
    std::error_code ignored;
    fs::remove(fs::path("/tmp") / name, ignored);
  }
}

class JitTest : public RecordingTest {
 protected:
  ~JitTest() override { std::ranges::for_each(runtimes_, remove_files_of_runtime); }

  // Records a command in a directory of its own. Returns the profile of its process of that name.
  std::optional<ProfileSummary> record_runtime(const std::string& comm, const Args& command) {
    Process::Options options;
    options.directory = directory_.path();
    return profile_of(record({"-F", "499"}, command, options), comm);
  }

  // The profile with the most samples: a forked child has its parent's name until it calls exec,
  // and may have a sample by then.
  std::optional<ProfileSummary> profile_of(const SessionSummary& summary, const std::string& comm) {
    const std::vector<ProfileSummary> profiles = profiles_of(summary, comm);
    for (const ProfileSummary& one : profiles) runtimes_.insert(static_cast<pid_t>(one.pid));
    const auto found = std::ranges::max_element(profiles, {}, &ProfileSummary::samples);
    return found == profiles.end() ? std::nullopt : std::optional(*found);
  }

  // Expects that nearly all samples in JIT code have names, and that these functions have most of
  // the time in both pprofs. `source` is part of the JIT source's name.
  void expect_named(const std::optional<ProfileSummary>& profile, const std::string& runtime,
                    const std::string& source, const Args& functions) {
    ASSERT_TRUE(profile);
    ASSERT_TRUE(profile->jit) << "no sample in JIT code, of " << profile->samples << "\n"
                              << recorded_.out << recorded_.err;
    EXPECT_EQ(profile->jit->runtime, runtime);
    EXPECT_THAT(profile->jit->file, HasSubstr(source));
    EXPECT_THAT(profile->jit->functions, Gt(functions.size()));
    EXPECT_GT(profile->jit->samples, 200U);
    EXPECT_GE(share(profile->jit->named_samples, profile->jit->samples), kNamed);
    for (const Report& report : {go_pprof(file(*profile)), perl(*profile)}) {
      double percent = 0;
      for (const auto& [name, flat] : report.flat) {
        if (std::ranges::any_of(functions, [&name = name](const std::string& function) {
              return name.find(function) != std::string::npos;
            })) {
          percent += flat;
        }
      }
      EXPECT_GE(percent, 60) << report.text;
    }
  }

  // Starts a session for a busy process. Returns its id.
  std::string start_session(pid_t pid) {
    const Ended started = daemon_.profctl({"start", "-F", "499", "--pid", std::to_string(pid)});
    EXPECT_EQ(started.status, 0) << started.err;
    return started.out.substr(0, started.out.find('\n'));
  }

  // Waits until the only session has enough samples for expect_named(), also on a slow machine.
  [[nodiscard]] bool has_enough_samples() {
    return eventually([&] {
      const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
      return sessions && std::ranges::any_of(*sessions, [](const SessionInfo& info) {
               return info.samples > 1000;
             });
    });
  }

  Report perl(const ProfileSummary& profile) const {
    return perl_pprof("/usr/bin/env", file(profile));
  }

  // The output of Go's pprof for a profile.
  std::string go(const ProfileSummary& profile, const Args& arguments) const {
    Args command{GO_PPROF_BINARY};
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.push_back(file(profile));
    return run(command).out;
  }

  std::set<pid_t> runtimes_;  // that were recorded
};

// The share of the functions of a jitdump that overlap an earlier one.
double share_of_reused(const fs::path& dump) {
  constexpr std::uint64_t kGrainBytes = 64;
  std::ifstream file(dump, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  JitDumpState state;
  const auto read = read_jitdump(bytes, bytes.size(), state);
  std::set<std::uint64_t> known;
  std::uint64_t loads = 0;
  std::uint64_t reused = 0;
  for (const JitDumpEvent& event : read->events) {
    if (event.kind != JitDumpEventKind::kLoad) continue;
    bool is_reused = false;
    for (std::uint64_t at = event.address; at < event.address + event.code_bytes; at += kGrainBytes)
      is_reused = !known.insert(at / kGrainBytes).second || is_reused;
    ++loads;
    reused += is_reused ? 1U : 0U;
  }
  return share(reused, loads);
}

TEST_F(JitTest, ASampleIsNamedByTheCodeOfItsTimeWhereAddressesAreReused) {
  Process::Options options;
  options.directory = directory_.path();
  const SessionSummary summary = record({"-F", "999"}, {workload("reuse"), "3"}, options);
  const auto profile = profile_of(summary, "reuse");
  ASSERT_TRUE(profile);
  ASSERT_TRUE(profile->jit);
  EXPECT_GT(profile->jit->functions, 50U);
  EXPECT_GT(profile->jit->samples, 200U);
  EXPECT_EQ(profile->jit->named_samples, profile->jit->samples);
  const Judged judged = judge(go(*profile, {"-traces", "-sample_index=samples"}), verdict_of_reuse);
  EXPECT_EQ(judged.wrong, 0U) << judged.first_wrong;
  EXPECT_GE(judged.right, profile->jit->samples);
}

TEST_F(JitTest, CodeOfNodeWithPerfProfIsNamedListedAndDisassembled) {
  const auto profile = record_runtime("node", {"node", "--perf-prof", program("busy.js"), "2"});
  expect_named(profile, "Node.js", "jit-", {":*fib", ":*mix"});
  ASSERT_TRUE(profile);
  // Without -source_path, pprof cuts the path after a directory that has the name of its own
  // working directory.
  EXPECT_THAT(go(*profile, {"-list=mix", "-source_path=/"}), HasSubstr("Math.sqrt(i)"));
  EXPECT_THAT(go(*profile, {"-show=mix", "-disasm=mix"}), HasSubstr("sqrtsd"));
}

TEST_F(JitTest, CodeOfNodeWithPerfBasicProfIsNamed) {
  const auto profile =
      record_runtime("node", {"node", "--perf-basic-prof", program("busy.js"), "2"});
  expect_named(profile, "Node.js", "perf-", {":*fib", ":*mix"});
}

TEST_F(JitTest, CodeOfNodeIsNamedByItsTimeWhereNodeReusesAddresses) {
  // --always-sparkplug compiles every function at its first call, so most of the code lies where
  // other code lay before. Node's own 2,300 builtins stay where they are.
  const auto profile =
      record_runtime("node", {"node", "--perf-prof", "--expose-gc", "--always-sparkplug",
                              program("churn.js"), "5", "40000"});
  ASSERT_TRUE(profile);
  ASSERT_TRUE(profile->jit);
  EXPECT_GT(profile->jit->functions, 40'000U);
  EXPECT_GE(share(profile->jit->named_samples, profile->jit->samples), kNamed);
  const double reused = share_of_reused(profile->jit->file);
  RecordProperty("reused", std::to_string(reused));
  EXPECT_GE(reused, 0.95);
  const Judged judged = judge(go(*profile, {"-traces", "-sample_index=samples"}), verdict_of_churn);
  RecordProperty("judged right", std::to_string(judged.right));
  EXPECT_EQ(judged.wrong, 0U) << judged.first_wrong;
  EXPECT_GT(judged.right, 1000U);
}

TEST_F(JitTest, CodeWithoutNamesIsReportedWithTheSwitchThatGivesThem) {
  const auto profile = record_runtime("node", {"node", program("busy.js"), "2"});
  ASSERT_TRUE(profile);
  ASSERT_TRUE(profile->jit);
  EXPECT_EQ(profile->jit->named_samples, 0U);
  EXPECT_THAT(recorded_.err,
              ContainsRegex("[0-9]+ of [0-9]+ JIT samples \\(Node.js\\) have no symbols\n"
                            "hint: node --perf-prof --perf-basic-prof"));
}

TEST_F(JitTest, CodeOfErlangIsNamed) {
  const Process::Options here{.directory = directory_.path(), .environment = {}, .before_exec = {}};
  ASSERT_EQ(run({"erlc", program("busy.erl")}, here).status, 0);
  const auto profile = record_runtime(
      "beam.smp", {"erl", "+JPperf", "dump", "-noshell", "-eval", "busy:run(2000), halt()."});
  expect_named(profile, "Erlang", "jit-", {"busy:fib/1"});
}

// The command line of PHP for a mode and a debug switch of its JIT. The JIT compiles only files in
// PHP's cache, which by default omits files that were written in the last 2 s.
Args php(const std::string& mode, const std::string& debug) {
  return {"php",
          "-d",
          "opcache.enable_cli=1",
          "-d",
          "opcache.file_update_protection=0",
          "-d",
          "opcache.jit_buffer_size=64M",
          "-d",
          "opcache.jit=" + mode,
          "-d",
          "opcache.jit_debug=" + debug,
          program("busy.php"),
          "2"};
}

TEST_F(JitTest, CodeOfPhpIsNamed) {
  const auto profile = record_runtime("php", php("function", "32"));
  expect_named(profile, "PHP", "jit-", {"JIT$fib", "JIT$mix"});
}

TEST_F(JitTest, CodeOfPhpInSharedMemoryIsNamedByAPerfMap) {
  const auto profile = record_runtime("php", php("tracing", "16"));
  expect_named(profile, "PHP", "perf-", {"TRACE-"});
}

TEST_F(JitTest, CodeOfAJvmWithoutSwitchesIsNamedByAskingTheJvm) {
  const Process::Options here{.directory = directory_.path(), .environment = {}, .before_exec = {}};
  ASSERT_EQ(
      run({"javac", "-J-XX:-UsePerfData", "-d", directory_.path(), program("Busy.java")}, here)
          .status,
      0);
  Process java({"java", "-XX:-UsePerfData", "-XX:+PreserveFramePointer", "Busy", "100"}, here);
  const std::string pid = std::to_string(java.pid());
  ASSERT_TRUE(eventually([&] {  // the JVM answers once it has started
    const fs::path first = directory_.path() / "first";
    return daemon_.profctl({"record", "-d", "1s", "--ask-runtime", "--pid", pid, "-o", first})
               .status == 0;
  }));
  Process::Options with_socket;
  with_socket.environment["PROFD_SOCKET"] = daemon_.socket();
  const Args asked{"record", "-F", "499", "--ask-runtime", "--pid", pid, "-o", output_};
  Process recorder(daemon_.profctl_command(asked), with_socket);
  ASSERT_TRUE(has_enough_samples());
  recorder.signal(SIGINT);
  EXPECT_EQ(recorder.wait().status, 0);
  expect_named(profile_of(read_summary(output_), "java"), "Java", "perf-",
               {"Busy.fib", "Busy.mix"});
  EXPECT_THAT(daemon_.profctl({"doctor", "--pid", pid}).out,
              HasSubstr("was asked for symbols, and code compiled since then is not in"));
}

TEST_F(JitTest, CodeOfAJvmWithPerfsAgentIsNamedAndListed) {
  Process::Options options;
  options.directory = directory_.path();
  options.environment = {{"JITDUMPDIR", directory_.path()}};
  ASSERT_EQ(
      run({"javac", "-J-XX:-UsePerfData", "-d", directory_.path(), program("Busy.java")}, options)
          .status,
      0);
  const Args java{"java",
                  std::string("-agentpath:") + PERF_JVMTI,
                  "-XX:-UsePerfData",
                  "-XX:+PreserveFramePointer",
                  "Busy",
                  "4"};
  const auto profile = profile_of(record({"-F", "499"}, java, options), "java");
  expect_named(profile, "Java", "/.debug/jit/java-jit-", {"LBusy;fib", "LBusy;mix"});
  ASSERT_TRUE(profile);
  EXPECT_THAT(go(*profile,
                 {"-list=Busy;mix", "-source_path=" + program("Busy.java").parent_path().string()}),
              HasSubstr("Math.sqrt(i)"));
}

TEST_F(JitTest, ASessionOfAnUnprivilegedUserHasNamesOfItsOwnProcesses) {
  const fs::path own = directory_.path() / "own";
  fs::create_directory(own);
  fs::permissions(directory_.path(), fs::perms::all);
  fs::permissions(own, fs::perms::all);
  Process::Options options;
  options.directory = own;
  options.uid = kNobody;
  output_ = own / "out";
  const auto profile = profile_of(
      record({"-F", "499"},
             {"node", "--perf-prof", test::reachable_program(program("busy.js")), "2"}, options),
      "node");
  expect_named(profile, "Node.js", "jit-", {":*fib", ":*mix"});
}

TEST_F(JitTest, ADumpOfARunningSessionHasNames) {
  Process::Options options;
  options.directory = directory_.path();
  // With --perf-prof, the last records stay in the runtime's buffer while it runs.
  Process node({"node", "--perf-basic-prof", program("busy.js"), "60"}, options);
  const std::string session = start_session(node.pid());
  ASSERT_TRUE(has_enough_samples());
  const Ended dumped = daemon_.profctl({"dump", session, "-o", output_});
  ASSERT_EQ(dumped.status, 0) << dumped.err;
  expect_named(profile_of(read_summary(output_), "node"), "Node.js", "perf-", {":*fib", ":*mix"});
  remove_files_of_runtime(node.pid());
  EXPECT_EQ(daemon_.profctl({"stop", session, "-o", directory_.path() / "stopped"}).status, 0);
}

TEST_F(JitTest, APerfMapNamesTheCodeThatARunningNodeHasNotYetWrittenToItsJitdump) {
  Process::Options options;
  options.directory = directory_.path();
  const Process node({"node", "--perf-prof", "--perf-basic-prof", program("busy.js"), "60"},
                     options);
  const std::string session = start_session(node.pid());
  ASSERT_TRUE(has_enough_samples());
  const Ended stopped = daemon_.profctl({"stop", session, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_THAT(stopped.err, Not(HasSubstr("no symbols")));
  expect_named(profile_of(read_summary(output_), "node"), "Node.js", "jit-", {":*fib", ":*mix"});
  remove_files_of_runtime(node.pid());
}

TEST(JitWindowsTest, WindowsAndTheirExportsHaveNames) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() / "profd.toml")
      << "[continuous]\nenabled = true\nwindow = \"2s\"\nfrequency = 499\n";
  Daemon::Options options;
  options.arguments = {"--config", directory.path() / "profd.toml"};
  const Daemon daemon(options);
  Process::Options here;
  here.directory = directory.path();
  Process node({"node", "--perf-basic-prof", program("busy.js"), "100"}, here);
  const std::string shown = "Node.js 100.0 % named";
  EXPECT_TRUE(eventually([&] {
    return daemon.profctl({"ps"}).out.find(shown) != std::string::npos;
  })) << daemon.profctl({"ps"}).out;
  // The next window may have begun before the names were known; the one after it did not.
  const std::uint64_t windows = daemon.status().continuous.windows;
  ASSERT_TRUE(eventually([&] { return daemon.status().continuous.windows >= windows + 2; }));
  const fs::path out = directory.path() / "out";
  const Ended exported = daemon.profctl({"export", "--last", "1m", "-o", out});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SessionSummary summary = read_summary(out);
  EXPECT_EQ(summary.ledger.difference(), 0);
  // Windows have all processes, perhaps another node; and before its exec, this one was the test.
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "node");
  const auto pid = static_cast<std::uint32_t>(node.pid());
  const auto profile = std::ranges::find(profiles, pid, &ProfileSummary::pid);
  ASSERT_NE(profile, profiles.end());
  ASSERT_TRUE(profile->jit);
  const Report report = go_pprof(out / profile->path);
  double percent = 0;
  for (const auto& [name, flat] : report.flat) {
    if (name.find(":*fib") != name.npos || name.find(":*mix") != name.npos) percent += flat;
  }
  EXPECT_GE(percent, 60) << report.text;
  remove_files_of_runtime(node.pid());
}

}  // namespace
}  // namespace profd::e2e
