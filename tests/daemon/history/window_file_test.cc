#include "daemon/history/window_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "daemon/history/view.h"
#include "daemon/storage/file_io.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::NamedWindow;
using testing::HasSubstr;
using testing::SizeIs;
using Time = std::chrono::system_clock::time_point;

constexpr Time kFileStart{std::chrono::milliseconds(1'767'362'700'123)};
constexpr ProcessOwner kAliceAlone{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kBobAlone{.uid = 4002, .gid = 4002};

NamedWindow window_of_three() {
  NamedWindow window(kFileStart);
  window.add({.pid = 7,
              .comm = "alices",
              .owner = kAliceAlone,
              .file = "/home/alice/work",
              .stacks = {{{"k:do_idle", "k:secret", "hot", "k:schedule", "main"}, 3}}});
  window.add({.pid = 8,
              .comm = "bobs",
              .owner = kBobAlone,
              .file = "/home/bob/private",
              .stacks = {{{"bobs_function"}, 5}}});
  window.add({.pid = 9, .comm = "roots", .stacks = {{{"roots_function"}, 9}}});
  return window;
}

class WindowFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path directory() const { return scratch_.path() / "windows"; }
  [[nodiscard]] std::filesystem::path path_of(const std::string& name) const {
    return directory() / (name + ".pb.gz");
  }

  test::ScratchDirectory scratch_;
};

TEST_F(WindowFileTest, HoldsWhatWasWritten) {
  const NamedWindow window = window_of_three();
  const std::string name = window.write(directory());
  const auto file = WindowFile::open(directory(), name);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->summary(), window.summary());
  EXPECT_EQ(file->record(), window.record());
  EXPECT_EQ(encode_pprof(profile_of(file->tables().value())), encode_pprof(window.profile()));
}

TEST_F(WindowFileTest, HasItsTimesAndItsSizeInTheHeader) {
  const std::string name = window_of_three().write(directory());
  const auto head = read_window_head(directory(), name);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->start, kFileStart);
  EXPECT_EQ(head->end, kFileStart + std::chrono::seconds(60));
  EXPECT_EQ(head->file_bytes, std::filesystem::file_size(path_of(name)));
}

TEST_F(WindowFileTest, IsAFileThatGunzipAndPprofRead) {
  const std::string name = window_of_three().write(directory());
  const std::string path = path_of(name).string();
  EXPECT_EQ(test::output_of("gzip -t " + path), "");
  const test::Report report = test::go_report(path);
  EXPECT_EQ(report.rows.at("bobs_function").flat, 5U);
}

TEST_F(WindowFileTest, ACutFileIsSeenByItsHeader) {
  const std::string name = window_of_three().write(directory());
  const auto whole = std::filesystem::file_size(path_of(name));
  for (const auto bytes :
       {whole - 1, whole / 2, std::uintmax_t{64}, std::uintmax_t{20}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path_of(name), bytes);
    const auto head = read_window_head(directory(), name);
    ASSERT_FALSE(head) << bytes;
    EXPECT_EQ(head.error().code, ErrorCode::kMalformed) << bytes;
  }
}

TEST_F(WindowFileTest, ForeignAndMalformedFilesAreRefused) {
  const NamedWindow window = window_of_three();
  const std::string good = window.bytes();
  ASSERT_TRUE(WindowFile::decode(good));
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 0x10);
  PprofProfile foreign = window.profile();
  foreign.own_data = "{}";
  SessionSummary fewer = window.summary();
  fewer.profiles.pop_back();
  for (const std::string& bytes :
       {std::string(), std::string("text"), flipped, good + good, encode_pprof_gzip(foreign),
        encode_window(window.profile(), fewer, window.record())}) {
    const auto file = WindowFile::decode(bytes);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::kMalformed) << file.error().message;
  }
}

TEST_F(WindowFileTest, AWindowIsNotReplaced) {
  const NamedWindow window = window_of_three();
  (void)window.write(directory());
  const auto again = write_window(directory(), window.name(), "other");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kBusy);
  EXPECT_TRUE(WindowFile::open(directory(), window.name()));
  EXPECT_THAT(list_directory(directory()).value(), SizeIs(1));
}

TEST_F(WindowFileTest, OnlyNamesOfWindowsAreOpened) {
  for (const char* name : {"", "../x", "20260102T140500Z/../y", "20260102T140501Z"}) {
    const auto file = WindowFile::open(directory(), name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code, ErrorCode::kNotFound) << name;
  }
}

TEST_F(WindowFileTest, OthersSelectTheirSamplesWithTheKernelAsOneFrame) {
  const auto file = WindowFile::decode(window_of_three().bytes());
  ASSERT_TRUE(file);
  const WindowView view = view_window(*file, test::kAlice);
  ASSERT_THAT(view.summary.profiles, SizeIs(1));
  PprofTables tables = file->tables().value();
  hide_kernel(tables);
  PprofMerge merge;
  ASSERT_TRUE(merge.add(tables, select_for(view)));
  const PprofProfile& profile = merge.profile();
  ASSERT_THAT(profile.samples(), SizeIs(1));
  EXPECT_EQ(profile.values(0)[0], 3);
  std::vector<std::string_view> names;
  for (const std::uint32_t frame : profile.stack(profile.samples()[0].stack)) {
    const PprofLocation& location = profile.locations()[frame];
    names.push_back(
        profile.text(profile.functions()[profile.lines(location.lines)[0].function].name));
  }
  EXPECT_THAT(names, testing::ElementsAre("[kernel]", "hot", "[kernel]", "main"));
  const std::string bytes = encode_pprof(profile);
  for (const char* foreign : {"bob", "private", "root", "secret", "do_idle", "schedule"}) {
    EXPECT_THAT(bytes, testing::Not(HasSubstr(foreign)));
  }
}

}  // namespace
}  // namespace profd
