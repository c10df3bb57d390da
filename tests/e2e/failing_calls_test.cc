// Calls of the daemon that fail, one after the other, each in its turn, and a clock that jumps.
// Nothing is lost in silence, nothing half done is shown, and what comes next works.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/unique_fd.h"
#include "tests/e2e/faults_fixture.h"
#include "tests/faults/shim.h"

namespace profd::e2e {
namespace {

using std::chrono_literals::operator""s;
using ::testing::HasSubstr;

// The page shared with the shim.
class Shim {
 public:
  Shim() {
    const UniqueFd fd(::open(file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(fd.get(), sizeof(profd_shim)) != 0) return;
    void* const mapped =
        ::mmap(nullptr, sizeof(profd_shim), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped != MAP_FAILED) page_ = static_cast<profd_shim*>(mapped);
  }
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;
  ~Shim() { ::munmap(page_, sizeof(profd_shim)); }

  [[nodiscard]] Daemon::Options daemon() const {
    Daemon::Options options;
    options.process.environment = {{"LD_PRELOAD", FAULT_SHIM}, {"PROFD_SHIM", file()}};
    return options;
  }
  void watch(const std::filesystem::path& directory) {
    directory.native().copy(page_->directory, sizeof(page_->directory) - 1);
  }

  // The number-th call from now on fails.
  void arm(profd_shim_fault fault, std::uint32_t number) {
    __atomic_store_n(&page_->fail_at, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page_->calls, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&page_->struck, 0, __ATOMIC_SEQ_CST);
    page_->fault = fault;
    __atomic_store_n(&page_->fail_at, number, __ATOMIC_SEQ_CST);
  }
  // Whether it was reached.
  bool disarm() {
    __atomic_store_n(&page_->fail_at, 0, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&page_->struck, __ATOMIC_SEQ_CST) != 0;
  }
  [[nodiscard]] std::uint32_t calls() const {
    return __atomic_load_n(&page_->calls, __ATOMIC_SEQ_CST);
  }
  void set_clock_ahead(std::chrono::seconds by) { page_->clock_offset = by.count(); }

 private:
  [[nodiscard]] std::filesystem::path file() const { return directory_.path() / "shim"; }

  TemporaryDirectory directory_;
  profd_shim* page_ = nullptr;
};

struct HasShim {
  Shim shim_;
};

// A daemon whose changes to its state directory fail when they are told to.
class DiskFaultsTest : private HasShim, public FaultsTest {
 protected:
  DiskFaultsTest() : FaultsTest(shim_.daemon()) { shim_.watch(daemon_.state()); }

  using Step = std::function<Ended(const std::filesystem::path& out)>;

  // Lets each call of a step fail in its turn, until the step has no more of them. A step that
  // fails says so, and leaves nothing; the next try gives all.
  void walk(profd_shim_fault fault, const std::function<void()>& before, const Step& step) {
    // Tables are written to the state directory meanwhile, and are no part of the step.
    shim_.watch(daemon_.state() / "results");
    std::uint32_t failed = 0;
    for (std::uint32_t number = 1;; ++number) {
      before();
      const std::filesystem::path out = directory_.path() / std::to_string(++steps_);
      shim_.arm(fault, number);
      const Ended ended = step(out);
      const bool struck = shim_.disarm();
      if (ended.status == 0) {
        expect_whole(out);
      } else {
        ++failed;
        EXPECT_TRUE(struck) << ended.err;
        EXPECT_NE(fault, PROFD_SHIM_SHORT) << "call " << number << ": " << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(fault == PROFD_SHIM_EIO ? "Input/output error"
                                                                 : "No space left on device"));
        EXPECT_FALSE(std::filesystem::exists(out / "session.json"));
        const std::filesystem::path again = directory_.path() / std::to_string(++steps_);
        const Ended second = step(again);
        EXPECT_EQ(second.status, 0) << "after call " << number << ": " << second.err;
        expect_whole(again);
      }
      expect_only_whole_results();
      ASSERT_TRUE(daemon_.process().running());
      if (!struck) {
        std::printf("%u calls, %u of them fatal to the step\n", number - 1, failed);
        if (fault != PROFD_SHIM_SHORT) {
          // To make the result's file, to write a profile and to write the index.
          EXPECT_GE(failed, 3U) << "of " << number - 1;
        }
        return;
      }
    }
  }

  // Beside what was there before, which can still be read: no file is left half made.
  void expect_only_whole_results() {
    for (const auto& entry : std::filesystem::directory_iterator(daemon_.state() / "results")) {
      const UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_TRUE(read_result_index(file.get(), std::uint64_t{64} << 20)) << entry.path();
    }
  }

  using HasShim::shim_;
  std::uint32_t steps_ = 0;
};

class StepFaultsTest : public DiskFaultsTest,
                       public ::testing::WithParamInterface<profd_shim_fault> {};

TEST_P(StepFaultsTest, AStopFailsAloudAndLosesNothing) {
  const std::string old = start({"--pid", busy_pid_, "-F", "499", "-d", "1"});
  EXPECT_TRUE(eventually([&] { return session(old)->state == "ended"; }));
  std::string id;
  walk(
      GetParam(),
      [&] {
        id = start({"--pid", busy_pid_, "-F", "999"});
        wait_for_samples(id, 20);
      },
      [&](const std::filesystem::path& out) {
        return daemon_.profctl({"stop", id, "-o", out});
      });
  const std::filesystem::path out = directory_.path() / "old";
  EXPECT_EQ(daemon_.profctl({"stop", old, "-o", out}).status, 0);
  expect_whole(out);
}

TEST_P(StepFaultsTest, ADumpFailsAloudAndItsSessionGoesOn) {
  const std::string id = start({"--pid", busy_pid_, "-F", "499"});
  wait_for_samples(id, 20);
  walk(
      GetParam(), [] {},
      [&](const std::filesystem::path& out) {
        return daemon_.profctl({"dump", id, "-o", out});
      });
  EXPECT_EQ(session(id)->state, "running");
}

INSTANTIATE_TEST_SUITE_P(Disk, StepFaultsTest,
                         ::testing::Values(PROFD_SHIM_ENOSPC, PROFD_SHIM_EIO, PROFD_SHIM_SHORT),
                         [](const auto& fault) {
                           return fault.param == PROFD_SHIM_ENOSPC ? "NoSpace"
                                  : fault.param == PROFD_SHIM_EIO  ? "InputOutputError"
                                                                   : "ShortWrite";
                         });

// Tables are kept to save time alone: without them all is parsed again, and nobody has to know.
TEST_F(DiskFaultsTest, ATableThatCanNotBeKeptIsMadeAnewAndNothingElseNotices) {
  const std::filesystem::path kept = daemon_.state() / "unwind";
  std::uint32_t number = 0;
  bool struck = true;
  while (struck) {
    const std::filesystem::path program = directory_.path() / ("program" + std::to_string(number));
    std::filesystem::copy_file(workload("shares"), program);
    // Another content, so that it is a table of its own: bytes behind an ELF file are no part of
    // it, so the change is in the owner.
    ASSERT_EQ(::chown(program.c_str(), 20'000 + number, 0), 0);
    shim_.arm(PROFD_SHIM_ENOSPC, ++number);
    const std::filesystem::path out = directory_.path() / ("out" + std::to_string(number));
    const Ended ended =
        daemon_.profctl({"record", "-F", "499", "-d", "1", "-o", out, "--", program, "1"});
    struck = shim_.disarm();
    // The first calls are those of the table, the later ones those of the result.
    if (ended.status != 0) break;
    expect_whole(out);
    const SessionSummary summary = read_summary(out);
    for (const ProfileSummary& profile : summary.profiles) {
      // The loader has a few instructions without unwind information: about one tick in 30,000 hits
      // them, with kept tables too.
      CountsByReason incomplete = profile.incomplete;
      EXPECT_LE(std::exchange(incomplete["no_row"], 0), 1U) << profile.path;
      for (const auto& [reason, samples] : incomplete) {
        EXPECT_EQ(samples, 0U) << profile.path << " " << reason;
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator(kept)) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "key" || name.ends_with(".rows")) << name;
    }
  }
  std::printf("%u calls\n", number - 1);
  EXPECT_GT(number, 2U);
}

// 3,600 s forward and back in one session: nothing is measured by the time of day.
TEST_F(DiskFaultsTest, AClockThatJumpsChangesNoDuration) {
  const auto began = std::chrono::steady_clock::now();
  const std::string id = start({"--pid", busy_pid_, "-F", "199", "-d", "8"});
  const std::string dumped = start({"--pid", busy_pid_, "-F", "199"});
  wait_for_samples(dumped, 50);
  ASSERT_EQ(daemon_.profctl({"dump", dumped, "-o", directory_.path() / "dump"}).status, 0);
  shim_.set_clock_ahead(3600s);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(session(id)->state, "running");
  shim_.set_clock_ahead(-3600s);
  EXPECT_TRUE(eventually([&] { return session(id)->state == "ended"; }));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(took.count(), 8.0);
  EXPECT_NEAR(session(id)->seconds, 8.0, 0.5);
  shim_.set_clock_ahead(0s);
  const std::filesystem::path out = directory_.path() / "out";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
  EXPECT_NEAR(read_summary(out).seconds, 8.0, 0.5);
  expect_whole(out);
}

// Continuous mode with windows of a second, whose calls fail one after the other. Tables of
// programs that begin meanwhile are no part of a window.
class WindowFaultsTest : private HasShim, public FaultsTest {
 protected:
  WindowFaultsTest() : FaultsTest(with_windows(shim_.daemon())) {
    shim_.watch(daemon_.state() / "windows");
  }

  static Daemon::Options with_windows(Daemon::Options options) {
    static const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "profd.toml";
    std::ofstream(file) << "[continuous]\nenabled = true\nwindow = \"1s\"\n";
    options.arguments = {"--config", file};
    return options;
  }

  void wait_for_another_window() {
    const std::string last = daemon_.status().continuous.last_written;
    EXPECT_TRUE(eventually([&] { return daemon_.status().continuous.last_written != last; }))
        << "after " << last;
  }
  void expect_whole_windows() {
    for (const auto& entry : std::filesystem::directory_iterator(daemon_.state() / "windows")) {
      if (entry.path().filename().native().starts_with('.')) continue;  // under way
      const auto window = WindowFile::open(entry.path().parent_path(), entry.path().stem().stem());
      ASSERT_TRUE(window) << entry.path() << window.error().message;
      EXPECT_TRUE(window->tables()) << entry.path();
      EXPECT_EQ(window->summary().ledger.difference(), 0) << entry.path();
    }
  }

  using HasShim::shim_;
};

// A call that fails costs a window, which is counted, or nothing; the next one is there.
TEST_F(WindowFaultsTest, AWindowIsWholeOrCountedAndTheNextOneIsWritten) {
  wait_for_another_window();
  wait_for_another_window();
  shim_.arm(PROFD_SHIM_NONE, 0);
  wait_for_another_window();
  const std::uint32_t calls = shim_.calls();
  std::uint32_t counted = 0;
  for (std::uint32_t number = 1; number <= calls; ++number) {
    const StatusInfo::Continuous before = daemon_.status().continuous;
    shim_.arm(PROFD_SHIM_ENOSPC, number);
    EXPECT_TRUE(eventually([&] { return shim_.calls() >= number; }));
    wait_for_another_window();
    EXPECT_TRUE(shim_.disarm());
    const StatusInfo::Continuous after = daemon_.status().continuous;
    counted += sum_of(after.failed) > sum_of(before.failed);
    EXPECT_FALSE(after.failed.contains("io")) << "each call found no space";
    EXPECT_GT(after.windows, before.windows);
  }
  expect_whole_windows();
  EXPECT_GT(counted, 0U);
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
  std::printf("%u calls, %u of them counted as a window that was not written\n", calls, counted);
}

}  // namespace
}  // namespace profd::e2e
