// Traces in the watched directory of a real daemon.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"
#include "tests/formats/readers.h"
#include "tests/formats/xray/fdr_writer.h"

namespace profd::e2e {
namespace {

using ::testing::HasSubstr;

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    std::filesystem::create_directory(traces_);
    std::ofstream(config_) << "[xray]\ndirectory = \"" << traces_.string() << "\"\n";
    Daemon::Options options;
    options.arguments = {"--config", config_};
    daemon_ = std::make_unique<Daemon>(std::move(options));
  }

  [[nodiscard]] StatusInfo::Xray counts() const { return daemon_->status().xray; }

  // Ten rounds of function 1 calling function 2 eight times, of a process that is gone.
  static std::string trace() {
    xray::Header header;
    header.frequency_hz = 1'000'000'000;
    header.buffer_bytes = 65536;
    xray::Writer writer(header.format);
    writer.preamble({.process = 0x7ffffff0, .thread = 1, .wall_ns = 1'000'000, .ticks = 1000});
    for (int round = 0; round < 10; ++round) {
      writer.function(xray::Action::kEnter, 1, 1000);
      for (int call = 0; call < 8; ++call) {
        writer.function(xray::Action::kEnter, 2, 1000);
        writer.function(xray::Action::kExit, 2, 1000);
      }
      writer.function(xray::Action::kExit, 1, 1000);
    }
    return xray::encode_header(header) + writer.take_buffer();
  }

  TemporaryDirectory directory_;
  std::filesystem::path traces_ = directory_.path() / "traces";
  std::filesystem::path config_ = directory_.path() / "profd.toml";
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(DirectoryTest, AFinishedTraceBecomesAResultOfItsOwner) {
  std::ofstream(traces_ / "xray-log.app.abcdef", std::ios::binary) << trace();
  ASSERT_TRUE(eventually([&] { return counts().traces == 1; }));
  const Ended list = daemon_->profctl({"list"});
  EXPECT_THAT(list.out, HasSubstr("xray-log"));
  EXPECT_THAT(list.out, HasSubstr(" 180 "));  // ten rounds of 18 records
  const std::string line = list.out.substr(list.out.find('\n') + 1);
  const std::filesystem::path output = directory_.path() / "out";
  ASSERT_EQ(daemon_->profctl({"stop", line.substr(0, 8), "-o", output}).status, 0);
  const SessionSummary summary = read_summary(output);
  ASSERT_EQ(summary.profiles.size(), 2);
  // The program is gone: its functions go by their numbers.
  const test::Report report = test::go_report(output / summary.profiles[1].path);
  EXPECT_EQ(report.rows.at("xray:1").flat, 10);
  EXPECT_EQ(report.rows.at("xray:2").flat, 80);
}

TEST_F(DirectoryTest, FilesThatAreNoTracesAreNotReadAndCounted) {
  std::ofstream(traces_ / "another.file") << "not looked at";
  std::ofstream(traces_ / "xray-log.junk.a") << std::string(1000, 'x');
  ASSERT_TRUE(eventually([&] { return counts().traces_refused == 1; }));
  std::filesystem::create_symlink("/etc/passwd", directory_.path() / "link");
  std::filesystem::rename(directory_.path() / "link", traces_ / "xray-log.link.b");
  ASSERT_TRUE(eventually([&] { return counts().traces_refused == 2; }));
  ::mkfifo((directory_.path() / "fifo").c_str(), 0600);
  std::filesystem::rename(directory_.path() / "fifo", traces_ / "xray-log.fifo.c");
  ASSERT_TRUE(eventually([&] { return counts().traces_refused == 3; }));
  EXPECT_EQ(counts().traces, 0);
}

}  // namespace
}  // namespace profd::e2e
