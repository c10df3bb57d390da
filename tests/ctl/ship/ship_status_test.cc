// The files of profctl ship for profctl status, and what others put in their place.

#include "ctl/ship/ship_status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <gmock/gmock.h>

#include "formats/base/json_text.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Life = ShipStatus::Life;

EndpointReport report_of(const std::string& name) {
  EndpointReport report;
  report.name = name;
  report.kind = "pyroscope";
  report.url = "http://127.0.0.1:4040";
  report.state.window = "20260102T120000Z";
  report.state.windows_unknown = 2;
  report.state.windows_dropped = {{"too_old", 3}};
  report.state.bytes_dropped = {{"refused", 4}};
  report.last_error = "could not connect";
  report.last_error_at = "2026-01-02T12:00:00Z";
  report.asked_at = "2026-01-02T12:00:01Z";
  return report;
}

class ShipStatusTest : public testing::Test {
 protected:
  ShipStatusTest() {
    std::string pattern = fs::temp_directory_path() / "ship-status-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    writer_.emplace(directory_);
  }
  ~ShipStatusTest() override { fs::remove_all(directory_); }

  [[nodiscard]] ShipStatus read(std::chrono::seconds later = 0s) const {
    const auto status = read_ship_status(directory_, std::chrono::system_clock::now() + later);
    EXPECT_TRUE(status);
    return status.value_or(ShipStatus{});
  }

  fs::path directory_;
  std::optional<ShipStatusWriter> writer_;
};

TEST_F(ShipStatusTest, WhatIsWrittenIsRead) {
  const std::vector<EndpointReport> reports = {report_of("a"), report_of("b")};
  ASSERT_TRUE(writer_->write(reports));
  const ShipStatus status = read();
  EXPECT_EQ(status.life, Life::kRuns);
  EXPECT_EQ(status.endpoints, reports);
  EXPECT_NE(status.written_at, "");
  EXPECT_THAT(status.problems, IsEmpty());
}

TEST_F(ShipStatusTest, AnyUserMayReadIt) {
  const mode_t former = ::umask(0077);
  ASSERT_TRUE(writer_->write({report_of("a")}));
  ::umask(former);
  for (const char* name : {"a.report", "running"}) {
    EXPECT_EQ(fs::status(directory_ / name).permissions(), fs::perms(0644)) << name;
  }
}

TEST_F(ShipStatusTest, AProcessThatHasEndedDoesNotRun) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  writer_.reset();
  EXPECT_EQ(read().life, Life::kEnded);
  EXPECT_THAT(read().endpoints, ElementsAre(report_of("a")));
}

TEST_F(ShipStatusTest, AProcessThatDoesNotWriteHangs) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  EXPECT_EQ(read(20s).life, Life::kRuns);
  EXPECT_EQ(read(60s).life, Life::kHangs);
}

TEST_F(ShipStatusTest, WithoutFilesThereIsNoStatus) {
  const auto now = std::chrono::system_clock::now();
  EXPECT_FALSE(read_ship_status(directory_, now));
  EXPECT_FALSE(read_ship_status(directory_ / "none", now));
}

TEST_F(ShipStatusTest, TheDirectoryIsMadeAndMadeAgain) {
  const fs::path below = directory_ / "x";
  ShipStatusWriter writer(below);
  ASSERT_TRUE(writer.write({report_of("a")}));
  fs::remove_all(below);
  EXPECT_FALSE(writer.write({report_of("a")}));
  EXPECT_TRUE(writer.write({report_of("a")}));
  EXPECT_TRUE(fs::exists(below / "a.report"));
  EXPECT_FALSE(ShipStatusWriter(directory_ / "y" / "z").write({}));
}

TEST_F(ShipStatusTest, EndpointsThatAreGoneHaveNoFile) {
  ASSERT_TRUE(writer_->write({report_of("a"), report_of("b")}));
  writer_.emplace(directory_);
  ASSERT_TRUE(writer_->write({report_of("b")}));
  EXPECT_THAT(read().endpoints, ElementsAre(report_of("b")));
}

// Everybody may open the file, and lock it for reading.
TEST_F(ShipStatusTest, ALockOfAReaderChangesNothing) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  writer_.reset();
  const UniqueFd file(::open((directory_ / "running").c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_RDLCK;
  ASSERT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
  EXPECT_EQ(read().life, Life::kEnded);
  writer_.emplace(directory_);
  ASSERT_TRUE(writer_->write({report_of("a")}));
  EXPECT_EQ(read().life, Life::kRuns);
}

TEST_F(ShipStatusTest, HostileFilesAreNotUsed) {
  struct Case {
    std::function<void(const fs::path& file)> make;
    const char* problem;
  };
  const auto write = [](const std::string& text) {
    return [text](const fs::path& file) { std::ofstream(file) << text; };
  };
  const std::string valid = json_text(json_of(report_of("x")));
  ASSERT_TRUE(writer_->write({report_of("a")}));
  for (const Case& one : std::vector<Case>{
           {write(""), "x.report: "},
           {write("[]"), "x.report: "},
           {write(R"({"name":"x"})"), "x.report: "},
           {write(json_text(json_of(report_of("../a")))), "it is of another endpoint"},
           {write(std::string(20'000, '[')), "more than 16 KiB"},
           {[](const fs::path& file) { ::mkfifo(file.c_str(), 0644); }, "not a regular file"},
           {[](const fs::path& file) { fs::create_directory(file); }, "not a regular file"},
           {[](const fs::path& file) { fs::create_symlink("a.report", file); }, "could not open"},
           {[&](const fs::path& file) {
              std::ofstream(file) << valid;
              fs::permissions(file, fs::perms(0666));
            },
            "others than root and profd-ship"},
           {[&](const fs::path& file) {
              std::ofstream(file) << valid;
              EXPECT_EQ(::chown(file.c_str(), 65534, 65534), 0);
            },
            "others than root and profd-ship"}}) {
    const fs::path file = directory_ / "x.report";
    one.make(file);
    const ShipStatus status = read();
    EXPECT_THAT(status.endpoints, ElementsAre(report_of("a")));
    EXPECT_THAT(status.problems, ElementsAre(HasSubstr(one.problem)));
    fs::remove_all(file);
  }
}

TEST_F(ShipStatusTest, ADirectoryOfAnotherUserIsNotUsed) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  ASSERT_EQ(::chown(directory_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(read().endpoints, IsEmpty());
  EXPECT_THAT(read().problems, ElementsAre(HasSubstr("others than root and profd-ship")));
}

TEST_F(ShipStatusTest, TheUserOfTheServiceIsThatOfTheFileOfUsers) {
  const fs::path users = directory_ / "passwd";
  std::ofstream(users) << "root:x:0:0::/root:/bin/sh\nmalformed\nprofd-shi:x:990:990::/:/bin/sh\n"
                          "profd-ship:x:991:991::/:/bin/sh\nother:x:992:992::/:/bin/sh\n"
                          "profd-ship:x:992:992::/:/bin/sh\n";
  EXPECT_TRUE(is_ship_user(991, users));
  for (const std::uint32_t uid : {0U, 990U, 992U, 993U}) EXPECT_FALSE(is_ship_user(uid, users));
  EXPECT_FALSE(is_ship_user(991, directory_ / "none"));
}

TEST_F(ShipStatusTest, NothingIsWrittenToADirectoryOfAnotherUser) {
  std::ofstream(directory_ / "x.report") << "x";
  ASSERT_EQ(::chown(directory_.c_str(), 65534, 65534), 0);
  const auto written = writer_->write({report_of("a")});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(written.error().hint, "");
  EXPECT_TRUE(fs::exists(directory_ / "x.report"));
  EXPECT_FALSE(fs::exists(directory_ / "a.report"));
}

TEST_F(ShipStatusTest, ADirectoryInUseIsBusy) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  ShipStatusWriter second(directory_);
  const auto written = second.write({report_of("b")});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kBusy);
  EXPECT_NE(written.error().hint, "");
  EXPECT_THAT(read().endpoints, ElementsAre(report_of("a")));
  writer_.reset();
  EXPECT_TRUE(second.write({report_of("b")}));
}

TEST_F(ShipStatusTest, NothingIsWrittenThroughALink) {
  fs::create_directory(directory_ / "real");
  fs::create_directory_symlink("real", directory_ / "link");
  ShipStatusWriter writer(directory_ / "link");
  EXPECT_FALSE(writer.write({report_of("a")}));
  EXPECT_TRUE(fs::is_empty(directory_ / "real"));
}

TEST_F(ShipStatusTest, FilesThatAreNoReportsStay) {
  std::ofstream(directory_ / "state.json") << "{}";
  std::ofstream(directory_ / "x.report") << "x";
  ASSERT_TRUE(writer_->write({report_of("a")}));
  EXPECT_TRUE(fs::exists(directory_ / "state.json"));
  EXPECT_FALSE(fs::exists(directory_ / "x.report"));
}

TEST_F(ShipStatusTest, ManyFilesAreReadInPart) {
  ASSERT_TRUE(writer_->write({}));
  for (int i = 0; i < 3000; ++i) {
    std::ofstream(directory_ / (std::to_string(i) + ".report")) << "x";
  }
  EXPECT_LE(read().problems.size(), 64U);
}

TEST_F(ShipStatusTest, ATimeOfAnyYearIsRead) {
  ASSERT_TRUE(writer_->write({report_of("a")}));
  for (const std::int64_t seconds : {-(std::int64_t{1} << 60), std::int64_t{1} << 60}) {
    const timespec time{.tv_sec = seconds, .tv_nsec = 0};
    const timespec times[] = {time, time};
    (void)::utimensat(AT_FDCWD, (directory_ / "a.report").c_str(), times, 0);
    EXPECT_THAT(read().endpoints, ElementsAre(report_of("a")));
  }
}

TEST(EndpointReportTest, TheLagIsTheAgeOfTheOldestWindowThatWaits) {
  const ShipTime now = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 720min;
  EndpointReport report;
  EXPECT_EQ(lag_seconds(report, now), std::nullopt);
  report.state.window = "20260102T115800Z";
  EXPECT_EQ(lag_seconds(report, now), 120);
  report.waiting = "20260102T115900Z-2";
  EXPECT_EQ(lag_seconds(report, now), 60);
  report.waiting = "x";
  EXPECT_EQ(lag_seconds(report, now), std::nullopt);
}

TEST(EndpointReportTest, ThatOfAnOlderShipIsRead) {
  boost::json::object older = json_of(report_of("a")).as_object();
  for (const char* key : {"url", "asked_at"}) ASSERT_EQ(older.erase(key), 1U) << key;
  const auto report = parse_endpoint_report(json_text(older));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->url, "");
  EXPECT_EQ(report->asked_at, "");
}

TEST(EndpointReportTest, ItsJsonSaysWhetherItFails) {
  const ShipTime now = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 721min;
  ShipStatus status;
  status.life = Life::kRuns;
  status.endpoints = {report_of("a")};
  status.endpoints[0].failing_since = "2026-01-02T12:00:00Z";
  const std::string json = json_text(json_of(status, now));
  EXPECT_THAT(json, HasSubstr(R"("running":true)"));
  EXPECT_THAT(json, HasSubstr(R"("lag_seconds":60)"));
  EXPECT_THAT(json, HasSubstr(R"("failing":true)"));
  EXPECT_THAT(json, HasSubstr(R"("bytes_dropped":{"refused":4})"));
}

}  // namespace
}  // namespace profd
