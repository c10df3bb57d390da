// Programs that say they are CPython, and are not: their memory has cycles, addresses of the
// kernel, pages that never come, texts without end. The stacks of others lose nothing, root is
// answered, each lie is counted by its reason, and what is shown is printable.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/utf8_text.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/e2e/python_fixture.h"
#include "tests/hostile/attack.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

constexpr int kAbsent = 77;  // the exit status of a mode that the host does not have

struct Lie {
  const char* mode;
  std::vector<std::string> reasons;  // one of which has to grow
};

std::vector<Lie> lies() {
  return {{"cycle", {"frame_limit"}},
          {"self_loop", {"frame_limit"}},
          {"long", {"frame_limit"}},
          {"far", {"frame_limit"}},
          {"many_segments", {"frame_limit"}},
          {"wild", {"unreadable"}},
          {"kernel", {"unreadable"}},
          {"noncanonical", {"unreadable"}},
          {"kernel_code", {"unreadable"}},
          {"protnone", {"unreadable"}},
          {"straddle", {"unreadable"}},
          {"userfaultfd", {"unreadable"}},
          {"not_code", {"not_code"}},
          {"position", {"not_code"}},
          {"falling_anchors", {"disordered"}},
          {"length", {"name_cut"}},
          {"huge_length", {"name_cut"}},
          {"not_compact", {"name_absent"}},
          {"absent_names", {"name_absent"}},
          {"storm", {"rate"}},
          {"mismatch", {"state_mismatch"}},
          {"no_state", {"no_thread_state"}},
          {"wild_state", {"unreadable_state"}},
          {"wild_key", {"unreadable_state", "no_thread_state", "state_mismatch"}}};
}

class HostileForgedPythonTest : public ::testing::Test {
 protected:
  HostileForgedPythonTest() { fs::permissions(directory_.path(), fs::perms(01777)); }

  static std::unique_ptr<Process> forge(const Args& arguments) {
    Process::Options user;
    user.uid = kNobody;
    Args command{FORGED_PYTHON};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(command, user);
  }
  static bool is_running(Process& forged) {
    return eventually([&] { return !forged.running() || forged.out() == "running\n"; }) &&
           forged.running();
  }

  // A second of the process, as one file.
  PythonSamples record(pid_t pid, const std::string& frequency = "499") {
    const fs::path path = directory_.path() / "forged.pb.gz";
    fs::remove(path);
    const Ended ended = daemon_.profctl(
        {"record", "-F", frequency, "-d", "1s", "--pid", std::to_string(pid), "-o", path});
    EXPECT_EQ(ended.status, 0) << ended.err;
    return PythonSamples::read(path);
  }

  // Whether one of the reasons is counted, while the process is recorded as often as that takes.
  bool is_counted(const Process& forged, const std::vector<std::string>& reasons) {
    auto before = interpreter_losses(daemon_);
    return eventually([&] {
      ask_as_root(daemon_);
      (void)record(forged.pid());
      auto now = interpreter_losses(daemon_);
      return std::ranges::any_of(
          reasons, [&](const std::string& reason) { return now[reason] > before[reason]; });
    });
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
};

// The forged file is taken for CPython, so that all the others are walked: without this, a
// recogniser that refuses it would let all other tests pass.
TEST_F(HostileForgedPythonTest, AChainThatIsSoundIsShown) {
  const auto forged = forge({"honest", "600"});
  ASSERT_TRUE(is_running(*forged)) << forged->err();
  PythonSamples samples;
  EXPECT_TRUE(eventually([&] {
    samples = record(forged->pid());
    return samples.cumulative("forged_9") > 80;
  })) << daemon_.profctl({"status"}).out;
  EXPECT_GT(samples.cumulative("forged_0"), 80);
}

TEST_F(HostileForgedPythonTest, EachLieIsCountedByItsReasonAndCostsNobodyElse) {
  Process roots({workload("shares"), "3600"});
  const Ended started =
      daemon_.profctl({"start", "-F", "999", "--pid", std::to_string(roots.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.mode);
    const auto forged = forge({lie.mode, "600"});
    if (!is_running(*forged)) {
      EXPECT_EQ(forged->wait().status, kAbsent) << forged->err();
      continue;
    }
    EXPECT_TRUE(is_counted(*forged, lie.reasons)) << daemon_.profctl({"status"}).out;
    EXPECT_TRUE(forged->running());
  }
  const fs::path output = directory_.path() / "roots";
  const Ended stopped = daemon_.profctl({"stop", first_line(started.out), "-o", output});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const SessionSummary summary = read_summary(output);
  EXPECT_EQ(summary.ledger.difference(), 0);
  EXPECT_THAT(summary.ledger.lost, IsEmpty()) << text_of(summary.ledger.lost);
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
  EXPECT_TRUE(go_pprof(output / summary.profiles.at(0).path).flat.contains("hot_sixty"));
}

// The server of the file never answers: a read that may sleep would stand for ever.
TEST_F(HostileForgedPythonTest, APageThatNeverComesStopsNothing) {
  const fs::path mount = directory_.path() / "fuse";
  fs::create_directory(mount);
  std::unique_ptr<Process> forged;  // ends behind the file system, on which its end may wait
  test::SilentFuse fuse(mount, kNobody);
  ASSERT_TRUE(fuse.mounted());
  forged = forge({"fuse", "600", fuse.file()});
  ASSERT_TRUE(is_running(*forged)) << forged->err();
  fuse.fall_silent();
  EXPECT_TRUE(is_counted(*forged, {"unreadable"}));
  ask_as_root(daemon_);
}

// In each form of output, as tests/hostile/printable_names_test.cc has it for symbols.
TEST_F(HostileForgedPythonTest, NamesAreShownPrintable) {
  const auto forged = forge({"control", "600"});
  ASSERT_TRUE(is_running(*forged)) << forged->err();
  EXPECT_TRUE(
      eventually([&] { return record(forged->pid()).cumulative("ev\uFFFD?[2J\uFFFD?x") > 50; }));
  for (const std::string form : {"x.pb.gz", "x.folded", "x.speedscope.json"}) {
    SCOPED_TRACE(form);
    const fs::path path = directory_.path() / form;
    const Ended ended = daemon_.profctl(
        {"record", "-d", "1s", "-F", "499", "--pid", std::to_string(forged->pid()), "-o", path});
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::string text = form == "x.pb.gz"
                           ? run({GO_PPROF_BINARY, "-symbolize=none", "-raw", path}).out
                           : slurp(path);
    EXPECT_THAT(text, ::testing::HasSubstr("[2J"));
    text += ended.out + ended.err + daemon_.profctl({"status"}).out;
    std::erase(text, '\n');
    EXPECT_TRUE(is_printable(text)) << without_controls(text);
  }
}

// A user with a file for each number that there is: files of root still get theirs.
TEST_F(HostileForgedPythonTest, FilesOfAUserTakeNoNumbersOfOthers) {
  const fs::path copies = directory_.path() / "copies";
  fs::create_directory(copies);
  fs::permissions(copies, fs::perms(01777));
  const std::string library = test::reachable_program(FORGED_RUNTIME);
  const auto forged =
      forge({"files", "3600", library, copies, std::to_string(attack_count(400, 4'096))});
  ASSERT_TRUE(eventually([&] { return forged->out() == "running\n"; }, std::chrono::seconds(120)))
      << forged->err();
  for (int round = 0; round < 5; ++round) (void)record(forged->pid());
  ask_as_root(daemon_);
  const Process python(python_command("shares.py", {"3600"}));
  EXPECT_TRUE(eventually([&] { return record(python.pid()).cumulative("work_f") > 40; }))
      << daemon_.profctl({"status"}).out;
}

}  // namespace
}  // namespace profd::e2e
