#include "daemon/xray/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "tests/daemon/control/running_server.h"
#include "tests/daemon/xray/blocked_closer.h"
#include "tests/formats/xray/fdr_writer.h"

namespace profd {
namespace {

constexpr uid_t kUser = 12345;

void leave_trace(const std::filesystem::path& path, uid_t owner = 0) {
  xray::Writer writer(xray::Format{});
  writer.preamble({.process = 1 << 30, .thread = 1, .wall_ns = 1, .ticks = 1, .cpu = 0});
  writer.function(xray::Action::kEnter, 1, 1);
  writer.function(xray::Action::kExit, 1, 1);
  std::ofstream(path) << xray::encode_header({{}, true, true, 1'000'000'000, 4096})
                      << writer.take_buffer(4096);
  ASSERT_EQ(::chown(path.c_str(), owner, owner), 0) << "this test needs root";
}

class XrayDirectoryTest : public ::testing::Test {
 protected:
  XrayDirectoryTest() { std::filesystem::create_directory(traces()); }
  ~XrayDirectoryTest() override { stop(); }

  [[nodiscard]] std::filesystem::path traces() const { return place_.path() / "traces"; }

  void watch() {
    auto directory = XrayDirectory::open({.io = io_,
                                          .store = store_,
                                          .closer = closer_,
                                          .owners = owners_,
                                          .unused_id = [this] { return id_of(++ids_); },
                                          .retry = std::chrono::milliseconds(20),
                                          .refusals = &refusals_},
                                         traces());
    ASSERT_TRUE(directory);
    directory_ = std::move(*directory);
  }

  static std::string id_of(int number) { return "id" + std::to_string(number); }

  // Then runs a little longer, since more may follow.
  void run_until(const std::function<bool()>& is_done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_done() && std::chrono::steady_clock::now() < limit) {
      io_.run_for(std::chrono::milliseconds(20));
    }
    io_.run_for(std::chrono::milliseconds(200));
  }

  [[nodiscard]] const XrayDirectory::Counts& counts() const { return directory_->counts(); }

  void stop() {
    if (!directory_) return;
    directory_->stop();
    io_.run();
    io_.restart();
    directory_.reset();
  }

  // Watches until that many traces are read or refused.
  XrayDirectory::Counts watch_until(std::uint64_t done) {
    watch();
    run_until([&] { return counts().logs + counts().refused >= done; });
    const XrayDirectory::Counts seen = counts();
    stop();
    return seen;
  }

  TemporaryDirectory place_;
  boost::asio::io_context io_;
  ResultStore store_ = ResultStore::open(place_.path() / "results").value();
  UidOwners owners_{place_.path() / "subuid", place_.path() / "passwd", std::chrono::seconds(0)};
  UserRefusals refusals_;
  FileCloser closer_;
  int ids_ = 0;
  std::unique_ptr<XrayDirectory> directory_;
};

TEST_F(XrayDirectoryTest, TracesLeftWhileTheDaemonDidNotRunAreReadOnce) {
  leave_trace(traces() / "xray-log.work.aaaaaa");
  EXPECT_EQ(watch_until(1).logs, 1U);
  EXPECT_EQ(watch_until(0).logs, 0U);
  leave_trace(traces() / "xray-log.work.bbbbbb");
  EXPECT_EQ(watch_until(1).logs, 1U);
}

// One turn of the io thread finds only some of them.
TEST_F(XrayDirectoryTest, ManyTracesLeftWhileTheDaemonDidNotRunAreAllRead) {
  constexpr int kTraces = 100;
  for (int i = 0; i < kTraces; ++i) leave_trace(traces() / ("xray-log.work." + std::to_string(i)));
  EXPECT_EQ(watch_until(kTraces).logs, kTraces + 0U);
  EXPECT_EQ(watch_until(0).logs, 0U) << "each once";
}

TEST_F(XrayDirectoryTest, FilesThatAreNoTracesAreCounted) {
  std::ofstream(traces() / "xray-log.work.aaaaaa") << std::string(4096, 'x');
  ASSERT_EQ(::chown((traces() / "xray-log.work.aaaaaa").c_str(), 4711, 4711), 0);
  EXPECT_EQ(watch_until(1).refused, 1U);
  EXPECT_EQ(refusals_.users().at(0),
            (StatusInfo::User{.uid = 4711, .refused = {{"xray.traces_refused", 1}}}));
}

TEST_F(XrayDirectoryTest, ATraceIsClosedOnTheClosersThreadSinceItMayBeDeleted) {
  watch();
  const test::BlockedCloser blocked(closer_);
  std::ofstream(traces() / "xray-log.work.aaaaaa") << std::string(4096, 'x');
  run_until([&] { return counts().refused == 1; });
  EXPECT_EQ(blocked.files_behind(), 1U);
  leave_trace(traces() / "xray-log.work.bbbbbb");
  run_until([&] { return counts().logs == 1; });
  EXPECT_GE(blocked.files_behind(), 2U);
}

TEST_F(XrayDirectoryTest, ATraceIsReadLaterWhileTooManyFilesWaitToBeClosed) {
  watch();
  {
    test::BlockedCloser blocked(closer_);
    blocked.fill();
    leave_trace(traces() / "xray-log.work.aaaaaa");
    run_until([&] { return true; });
    EXPECT_EQ(counts().logs, 0U);
    EXPECT_EQ(blocked.files_behind(), FileCloser::kMaxWaiting - 1);
  }
  run_until([&] { return counts().logs == 1; });
  EXPECT_EQ(counts().logs, 1U);
  EXPECT_EQ(counts().refused, 0U);
}

TEST_F(XrayDirectoryTest, LinksPipesAndDirectoriesAreCounted) {
  watch();
  std::filesystem::create_symlink("/etc/passwd", traces() / "xray-log.link.aaaaaa");
  ASSERT_EQ(::mkfifo((traces() / "xray-log.fifo.bbbbbb").c_str(), 0600), 0);
  std::filesystem::create_directory(traces() / "xray-log.directory.cccccc");
  std::filesystem::create_symlink("/etc/passwd", traces() / "another.link");
  leave_trace(traces() / "xray-log.work.dddddd");
  run_until([&] { return counts().logs == 1 && counts().refused == 3; });
  EXPECT_EQ(counts().logs, 1U);
  EXPECT_EQ(counts().refused, 3U);
}

TEST_F(XrayDirectoryTest, TracesOfAnOwnerWithAllResultsAreReadWhenOneIsRemoved) {
  constexpr int kTraces = 16;  // more than may wait as open files
  for (int i = 0; i < kTraces; ++i) {
    leave_trace(traces() / ("xray-log.work." + std::to_string(i)), kUser);
  }
  watch();
  run_until([&] { return counts().logs == XrayDirectory::kMaxResultsOfUid; });
  EXPECT_EQ(counts().logs, XrayDirectory::kMaxResultsOfUid);
  leave_trace(traces() / "xray-log.work.of_root");
  run_until([&] { return counts().logs == 5; });
  EXPECT_EQ(counts().logs, 5U) << "other owners do not wait";
  for (int i = 1; i <= kTraces + 1; ++i) {
    run_until([&] { return store_.find(id_of(i)) != nullptr; });
    ASSERT_TRUE(store_.remove(id_of(i))) << i;
  }
  EXPECT_EQ(counts().logs, kTraces + 1U);
  EXPECT_EQ(counts().refused, 0U);
}

TEST_F(XrayDirectoryTest, TracesOfSubordinateUidsCountWithTheirUser) {
  constexpr uid_t kFirst = 100'000;
  std::ofstream(place_.path() / "subuid") << kUser << ":" << kFirst << ":65536\n";
  for (uid_t i = 0; i <= XrayDirectory::kMaxResultsOfUid; ++i) {
    leave_trace(traces() / ("xray-log.work." + std::to_string(i)), i == 0 ? kUser : kFirst + i);
  }
  leave_trace(traces() / "xray-log.work.of_another", kFirst + 65'536);
  watch();
  run_until([&] { return counts().logs == XrayDirectory::kMaxResultsOfUid + 1; });
  EXPECT_EQ(counts().logs, XrayDirectory::kMaxResultsOfUid + 1);
  EXPECT_EQ(counts().refused, 0U);
}

}  // namespace
}  // namespace profd
