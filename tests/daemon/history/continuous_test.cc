#include "daemon/history/continuous.h"

#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <boost/asio/steady_timer.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/history/continuous_fixture.h"
#include "tests/daemon/storage/fsync_watch.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using test::ContinuousTest;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

ContinuousConfig each_second() { return {.enabled = true, .window = 1s}; }

TEST_F(ContinuousTest, DoesNothingUntilItIsEnabled) {
  continuous_->configure({});
  io_.run_for(50ms);
  EXPECT_FALSE(continuous_->is_sampling());
  EXPECT_FALSE(source_.slots[0]);
  EXPECT_FALSE(continuous_->status().enabled);
}

TEST_F(ContinuousTest, SamplesTheWholeHostAtItsFrequency) {
  continuous_->configure(each_second());
  EXPECT_TRUE(continuous_->is_sampling());
  ASSERT_TRUE(source_.slots[0]);
  EXPECT_TRUE(source_.slots[0]->target.all);
  EXPECT_FALSE(source_.slots[0]->target.restrict_to);
  EXPECT_EQ(source_.slots[0]->event.frequency_hz, 19U);
  EXPECT_EQ(changes_, 1);
}

TEST_F(ContinuousTest, EachWindowHasTheSamplesOfItsSlotAndAnExactLedger) {
  continuous_->configure(each_second());
  take(5);
  wait_for_windows(1);
  EXPECT_EQ(summary(0).ledger.taken, 5U);
  EXPECT_EQ(summary(0).ledger.written, 5U);
  EXPECT_EQ(summary(0).ledger.difference(), 0);
  EXPECT_EQ(summary(0).session, windows()[0].name);
  newest_ = 1;
  take(3);
  wait_for_windows(2);
  EXPECT_EQ(summary(1).ledger.written, 3U);
  EXPECT_EQ(summary(1).ledger.difference(), 0);
  EXPECT_GE(source_.moves, 2);
}

TEST_F(ContinuousTest, ReleasesTheFilesOfAWindowWhenItIsWritten) {
  continuous_->configure(each_second());
  take(1);
  run_until([this] { return source_.releases != 0; });
  const fs::directory_iterator written(continuous_->windows().windows_dir());
  EXPECT_NE(written, fs::directory_iterator());
}

// No slot is free for the next one.
TEST_F(ContinuousTest, WaitsForTheLastSamplesOfAWindowWithoutASuccessor) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(2);
  source_.is_late = true;
  continuous_->configure({});
  run_until([this] { return source_.slots[0]->is_ending; });
  take(1);
  io_.run_for(10ms);
  ASSERT_TRUE(source_.slots[0]) << "the window waits";
  source_.is_late = false;
  wait_for_windows(1);
  EXPECT_EQ(summary(0).ledger.written, 3U);
  EXPECT_FALSE(source_.slots[0]);
}

TEST_F(ContinuousTest, WindowsBeginWithTheSecondsOfTheWallClock) {
  continuous_->configure(each_second());
  wait_for_windows(3);
  const WindowRecord record = file(1).record();
  const auto since_second = record.start.time_since_epoch() % std::chrono::seconds(1);
  EXPECT_LT(since_second, 900ms);  // a slow machine is late, never early
  EXPECT_EQ(record.end_monotonic - record.start_monotonic, record.end - record.start);
}

TEST_F(ContinuousTest, TheOwnerOfAProfileIsThatOfAllItsSamples) {
  const ProcessOwner alice{.uid = 1000, .gid = 1000};
  continuous_->configure(each_second());
  take(2, alice);
  wait_for_windows(1);
  EXPECT_EQ(file(0).record().profiles.at(0).owner, alice);
  newest_ = 1;
  take(2, alice);
  take(1, ProcessOwner{.uid = 1000, .gid = 999});
  take(1, alice);
  wait_for_windows(2);
  EXPECT_EQ(file(1).record().profiles.at(0).owner, std::nullopt);
}

TEST_F(ContinuousTest, TriesAgainWhenNoSlotIsFree) {
  source_.error = fail(ErrorCode::kBusy, "all slots are in use");
  continuous_->configure(each_second());
  EXPECT_FALSE(continuous_->is_sampling());
  run_until([this] { return !continuous_->status().failed.empty(); });
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("not_begun", Ge(1U))));
  EXPECT_EQ(continuous_->status().lost_samples, 0U);
  source_.error.reset();
  run_until([this] { return continuous_->is_sampling(); });
}

class BlockWindowsTest : public ContinuousTest {
 protected:
  void SetUp() override {
    of_blocks_ = true;
    open();
  }
  static ContinuousConfig each_second_of_blocks() {
    ContinuousConfig config = each_second();
    config.off_cpu = true;
    return config;
  }
  // In the newest slot, as the sampler passes on a block that has ended.
  void take_block(std::uint64_t ns, std::uint64_t blocks = 1) {
    auto& ledger = source_.slots.at(newest_slot())->ledger;
    if (!ledger.blocks) ledger.blocks.emplace();
    source_.take(SyntheticSample(kProcess).leaf(1).block(PROFD_BLOCK_SLEEPING, ns, blocks),
                 newest_slot());
  }
};

// Finds windows of blocks by default, and a window that begins before its threads are watched.
TEST_F(BlockWindowsTest, BeginWhenTheOptionIsSetAndTheSourceHasBegun) {
  continuous_->configure(each_second());
  EXPECT_FALSE(continuous_->is_sampling());
  EXPECT_FALSE(continuous_->status().enabled);
  source_.calls_until_begun = 3;
  continuous_->configure(each_second_of_blocks());
  ASSERT_TRUE(continuous_->is_sampling());
  EXPECT_EQ(source_.slots.at(0)->event.name, "off-cpu");
  EXPECT_TRUE(source_.slots.at(0)->target.is_window);
  run_until([this] { return source_.calls_until_begun == 0; });
  EXPECT_EQ(source_.moves, 0);
  wait_for_windows(1);
  EXPECT_EQ(summary(0).event, "off-cpu");
}

// Finds microseconds that are lost where the times of blocks are rounded one by one.
TEST_F(BlockWindowsTest, CountMicrosecondsOfWhichNoneIsLost) {
  continuous_->configure(each_second_of_blocks());
  source_.slots.at(0)->ledger.blocks.emplace();
  source_.take(SyntheticSample(kProcess).leaf(1).block(PROFD_BLOCK_SLEEPING, 1700), 0);
  source_.take(SyntheticSample(kProcess).leaf(2).block(PROFD_BLOCK_SLEEPING, 1700, 3), 0);
  source_.take(SyntheticSample(kProcess).leaf(3).block(PROFD_BLOCK_DISK, 1'000'600), 0);
  wait_for_windows(1);
  const SessionSummary written = summary(0);
  EXPECT_EQ(written.period_us, 1U);
  EXPECT_EQ(written.ledger.taken, 1004U);
  EXPECT_EQ(written.ledger.written, 1004U);
  ASSERT_EQ(written.profiles.size(), 1U);
  EXPECT_EQ(written.profiles[0].samples, 1004U);
  const WindowFile window = file(0);
  const auto tables = window.tables();
  ASSERT_TRUE(tables);
  std::int64_t blocks = 0;
  std::int64_t ns = 0;
  for (std::size_t i = 0; i + 1 < tables->values.size(); i += 2) {
    blocks += tables->values[i];
    ns += tables->values[i + 1];
    EXPECT_EQ(tables->values[i + 1] % 1000, 0);
  }
  EXPECT_EQ(blocks, 5);
  EXPECT_EQ(ns, 1'004'000);
}

// The next window is moved to, and needs no begin.
TEST_F(BlockWindowsTest, FollowOneAnother) {
  continuous_->configure(each_second_of_blocks());
  take_block(2'000'000);
  wait_for_windows(2);
  EXPECT_GE(source_.moves, 2);
  EXPECT_EQ(summary(0).ledger.written, 2000U);
  EXPECT_EQ(summary(1).ledger.written, 0U);
}

// Finds a daemon that ends windows for good, or fills its log, where the kernel lacks a feature.
TEST_F(BlockWindowsTest, TryAgainWhereTheKernelCannotSampleBlocks) {
  source_.not_begun = fail(ErrorCode::kUnsupported, "no tracepoint");
  continuous_->configure(each_second_of_blocks());
  run_until([this] { return !continuous_->is_sampling(); });
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("not_begun", Ge(1U))));
  source_.not_begun.reset();
  wait_for_windows(1);
}

// Finds a shut-down that waits for the end of the window, and an empty window.
TEST_F(BlockWindowsTest, AreDroppedAtAShutDownBeforeTheyHaveBegun) {
  source_.calls_until_begun = 1'000'000'000;
  ContinuousConfig config = each_second_of_blocks();
  config.window = std::chrono::hours(1);
  continuous_->configure(config);
  ASSERT_TRUE(continuous_->is_sampling());
  shut_down();
  EXPECT_FALSE(source_.slots.at(0));
  EXPECT_TRUE(windows().empty());
}

TEST_F(ContinuousTest, ContinuesWithoutASecondSlot) {
  continuous_->configure(each_second());
  take(2);
  source_.error = fail(ErrorCode::kBusy, "all slots are in use");
  wait_for_windows(1);
  EXPECT_EQ(summary(0).ledger.written, 2U);
  EXPECT_FALSE(continuous_->is_sampling());
  source_.error.reset();
  run_until([this] { return continuous_->is_sampling(); });
}

TEST_F(ContinuousTest, AWindowThatCantBeWrittenIsCountedAndTheNextOneIsWritten) {
  continuous_->configure(each_second());
  fs::remove(continuous_->windows().windows_dir());
  take(6);
  run_until([this] { return !continuous_->status().failed.empty(); });
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("io", 1)));
  EXPECT_EQ(continuous_->status().lost_samples, 6U);
  fs::create_directory(continuous_->windows().windows_dir());
  newest_ = 1;
  take(2);
  wait_for_windows(1);
  EXPECT_EQ(continuous_->status().windows, windows().size());
}

// Of inodes, so that there is room on it for all that.
class FullFileSystem {
 public:
  explicit FullFileSystem(std::string path) : path_(std::move(path)) {
    is_mounted_ = ::mount("profd_test", path_.c_str(), "tmpfs", 0, "nr_inodes=1,size=8m") == 0;
  }
  FullFileSystem(const FullFileSystem&) = delete;
  FullFileSystem& operator=(const FullFileSystem&) = delete;
  ~FullFileSystem() {
    if (is_mounted_) (void)::umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

TEST_F(ContinuousTest, AWindowThatFindsNoSpaceIsCountedAsThat) {
  const FullFileSystem full(continuous_->windows().windows_dir());
  ASSERT_TRUE(full.is_mounted());
  continuous_->configure(each_second());
  take(6);
  run_until([this] { return !continuous_->status().failed.empty(); });
  shut_down();
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("no_space", Ge(1U))));
  EXPECT_EQ(continuous_->status().lost_samples, 6U);
}

TEST_F(ContinuousTest, TheCurrentWindowIsWrittenAtShutDown) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(9);
  shut_down();
  ASSERT_THAT(windows(), SizeIs(1));
  EXPECT_EQ(summary(0).ledger.written, 9U);
  EXPECT_FALSE(source_.slots[0]);
}

TEST_F(ContinuousTest, TheWindowAtShutDownWaitsForItsLastSamples) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(3);
  source_.is_late = true;
  boost::asio::steady_timer late(io_, 150ms);
  late.async_wait([this](const boost::system::error_code&) {
    take(6);
    source_.is_late = false;
  });
  shut_down();
  ASSERT_THAT(windows(), SizeIs(1));
  EXPECT_EQ(summary(0).ledger.written, 9U);
}

TEST_F(ContinuousTest, AWindowWhoseLastSamplesNeverComeIsWrittenAtShutDown) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(3);
  source_.is_late = true;
  shut_down();
  ASSERT_THAT(windows(), SizeIs(1));
  EXPECT_EQ(summary(0).ledger.written, 3U);
}

TEST_F(ContinuousTest, AChangedFrequencyAppliesAtOnce) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(1);
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1), .frequency_hz = 97});
  wait_for_windows(1);
  run_until([this] { return continuous_->is_sampling(); });
  ASSERT_TRUE(source_.slots[0]);
  EXPECT_EQ(source_.slots[0]->event.frequency_hz, 97U);
}

TEST_F(ContinuousTest, EndsWhenItIsDisabledAndKeepsItsWindows) {
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  take(1);
  continuous_->configure({});
  wait_for_windows(1);
  EXPECT_FALSE(continuous_->is_sampling());
  EXPECT_FALSE(source_.slots[0]);
  EXPECT_EQ(continuous_->status().windows, 1U);
  continuous_->configure({.enabled = true, .window = std::chrono::hours(1)});
  run_until([this] { return continuous_->is_sampling(); });
}

TEST_F(ContinuousTest, EvictsWindowsOverTheLimits) {
  ContinuousConfig config = each_second();
  config.max_bytes = 1;
  continuous_->configure(config);
  take(1);
  run_until([this] { return !continuous_->status().last_written.empty(); });
  run_until([this] { return continuous_->status().waiting == 0; });
  EXPECT_THAT(windows(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(continuous_->windows().windows_dir()));
  EXPECT_FALSE(fs::exists(scratch_.path() / "objects"));
}

TEST_F(ContinuousTest, AReloadTriesAgainToStartTheParser) {
  parser_error_ = fail(ErrorCode::kIo, "no process can be started");
  continuous_->configure(each_second());
  EXPECT_FALSE(continuous_->is_sampling());
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("not_begun", 1U)));
  parser_error_.reset();
  continuous_->configure(each_second());
  EXPECT_TRUE(continuous_->is_sampling());
  wait_for_windows(1);
  continuous_->configure(each_second());
  EXPECT_EQ(changes_, 1) << "nothing has changed";
}

TEST_F(ContinuousTest, OldWindowsAreRemovedWhileItIsOff) {
  const Time now = Time::clock::now();
  (void)write_window_at(now - 24h * 40);
  const std::string young = write_window_at(now - 2h);
  cleaning_interval_ = 10ms;
  reopen();
  continuous_->configure({});
  run_until([this] { return windows().size() == 1; });
  EXPECT_EQ(windows()[0].name, young);
  const fs::path files = continuous_->windows().windows_dir();
  run_until([&] { return std::distance(fs::directory_iterator(files), {}) == 1; });
}

// Two hours ago.
auto an_hour_that_is_over() { return hour_of(std::chrono::system_clock::now()) - 2h; }

TEST_F(ContinuousTest, AnHourThatWasOverAtTheStartBecomesAFileOnce) {
  const Time hour = an_hour_that_is_over();
  const std::string window = write_window_at(hour + 5min);
  (void)write_window_at(hour + 6min);
  (void)write_window_at(hour + 61min);
  reopen();
  continuous_->configure(each_second());
  wait_for_hours(2);
  EXPECT_EQ(continuous_->windows().hours()[0].name, window_name(hour));
  EXPECT_EQ(samples_of_hour(0), 6U);
  EXPECT_EQ(samples_of_hour(1), 3U);
  EXPECT_EQ(windows()[0].hour, window_name(hour));
  EXPECT_EQ(continuous_->status().hours, 2U);
  reopen();
  continuous_->configure(each_second());
  wait_for_windows(windows().size() + 1);
  shut_down();
  for (const HourInfo& made : continuous_->windows().hours()) {
    EXPECT_FALSE(made.name.ends_with("-2")) << made.name;
  }
}

TEST_F(ContinuousTest, WindowsOfAnHourThatCameAgainGetAFileOfTheirOwn) {
  const Time hour = an_hour_that_is_over();
  (void)write_window_at(hour + 5min);
  reopen();
  continuous_->configure(each_second());
  wait_for_hours(1);
  shut_down();
  // As after a step of the clock.
  (void)write_window_at(hour + 2min);
  (void)write_window_at(hour + 7min);
  reopen();
  continuous_->configure(each_second());
  wait_for_hours(2);
  EXPECT_EQ(continuous_->windows().hours()[1].name, window_name(hour) + "-2");
  EXPECT_EQ(samples_of_hour(0), 3U);
  EXPECT_EQ(samples_of_hour(1), 6U);
}

TEST_F(ContinuousTest, AnHourThatCantBeWrittenIsCountedAndItsWindowsStay) {
  (void)write_window_at(an_hour_that_is_over());
  reopen();
  fs::remove(continuous_->windows().hours_dir());
  continuous_->configure(each_second());
  run_until([this] { return !continuous_->status().failed.empty(); });
  wait_for_windows(3);
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("hour", 1))) << "not tried each time";
  EXPECT_EQ(continuous_->status().lost_samples, 0U);
  fs::create_directory(continuous_->windows().hours_dir());
  reopen();
  continuous_->configure(each_second());
  wait_for_hours(1);
}

TEST_F(ContinuousTest, OldWindowsAreRemovedWhenTheirHourIsAFile) {
  const Time hour = an_hour_that_is_over();
  (void)write_window_at(hour - 100h);
  reopen();
  continuous_->configure(each_second());
  wait_for_hours(1);
  run_until([this] { return windows().empty() || windows()[0].hour.empty(); });
  EXPECT_EQ(samples_of_hour(0), 3U);
  shut_down();
  EXPECT_FALSE(
      fs::exists(continuous_->windows().windows_dir() + "/" + window_name(hour - 100h) + ".pb.gz"));
}

// The next window is open then: its end would show the step too late.
TEST_F(ContinuousTest, AStepOfTheClockWhileAWindowIsWrittenRemovesNothing) {
  const std::string old = write_window_at(an_hour_that_is_over());
  reopen();
  const test::FsyncWatch step([this](const std::string&) { ahead_ = 24h * 400; });
  continuous_->configure(each_second());
  wait_for_windows(3);
  wait_for_hours(1);
  EXPECT_EQ(windows().front().name, old);
  shut_down();
  EXPECT_EQ(windows().front().name, old);
  EXPECT_TRUE(fs::exists(continuous_->windows().windows_dir() + "/" + old + ".pb.gz"));
  EXPECT_GE(continuous_->windows().hours().size(), 1U);
}

}  // namespace
}  // namespace profd
