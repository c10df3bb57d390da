#include "daemon/history/range_files.h"

#include <gmock/gmock.h>

#include "tests/formats/readers.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Time = std::chrono::system_clock::time_point;

// 2026-01-02 14:00:00 UTC
constexpr Time kTwo{std::chrono::seconds(1'767'362'400)};

class RangeFilesTest : public testing::Test {
 protected:
  // The hour from `start` on: its file, and those of its windows that are not gone.
  void add_hour(Time start, int first_kept) {
    std::vector<std::string> names;
    for (int minute = 0; minute < 60; ++minute) {
      const Time at = start + minute * 1min;
      names.push_back(window_name(at));
      if (minute >= first_kept) add_window(at);
    }
    store_.adopt(HourInfo{.name = window_name(start),
                          .start = start,
                          .end = start + 1h,
                          .parts = {.windows = names}});
  }
  void add_window(Time at) {
    store_.adopt(WindowInfo{.name = window_name(at), .start = at, .end = at + 1min});
  }
  [[nodiscard]] RangeFiles find(Time since, Time until, PreferHours prefer) const {
    return files_in(store_, {.since = since, .until = until}, prefer);
  }
  [[nodiscard]] HistoryFile hour(Time start) const {
    return {.directory = store_.hours_dir(), .name = window_name(start)};
  }
  [[nodiscard]] HistoryFile window(Time start) const {
    return {.directory = store_.windows_dir(), .name = window_name(start)};
  }

  test::ScratchDirectory scratch_;
  WindowStore store_ = WindowStore::open(scratch_.path()).value();
};

TEST_F(RangeFilesTest, AnHourWhoseWindowsAreGoneIsItsFile) {
  add_hour(kTwo, 60);
  add_window(kTwo + 1h);
  for (const PreferHours prefer : {PreferHours::kNo, PreferHours::kYes}) {
    const RangeFiles found = find(kTwo, kTwo + 2h, prefer);
    EXPECT_THAT(found.files, ElementsAre(hour(kTwo), window(kTwo + 1h)));
    EXPECT_THAT(found.cut_hours, IsEmpty());
  }
}

TEST_F(RangeFilesTest, AWholeHourIsItsFileWhereThatIsPreferred) {
  add_hour(kTwo, 0);
  EXPECT_THAT(find(kTwo, kTwo + 1h, PreferHours::kYes).files, ElementsAre(hour(kTwo)));
  EXPECT_THAT(find(kTwo + 2s, kTwo + 1h, PreferHours::kYes).files, ElementsAre(hour(kTwo)));
  EXPECT_THAT(find(kTwo, kTwo + 1h, PreferHours::kNo).files, SizeIs(60));
}

TEST_F(RangeFilesTest, APartOfAnHourIsItsWindows) {
  add_hour(kTwo, 0);
  const RangeFiles found = find(kTwo + 58min, kTwo + 2h, PreferHours::kYes);
  EXPECT_THAT(found.files, ElementsAre(window(kTwo + 58min), window(kTwo + 59min)));
  EXPECT_THAT(found.cut_hours, IsEmpty());
}

TEST_F(RangeFilesTest, APartOfAnHourWithoutWindowsIsTheWholeHourAndSaysSo) {
  add_hour(kTwo, 60);
  const RangeFiles found = find(kTwo + 10min, kTwo + 20min, PreferHours::kYes);
  EXPECT_THAT(found.files, ElementsAre(hour(kTwo)));
  ASSERT_THAT(found.cut_hours, SizeIs(1));
  EXPECT_EQ(found.cut_hours[0].since, kTwo);
  EXPECT_EQ(found.cut_hours[0].until, kTwo + 1h);
}

TEST_F(RangeFilesTest, AnHourThatLostItsFirstWindowsIsWhatTheRangeNeeds) {
  add_hour(kTwo, 30);
  for (const PreferHours prefer : {PreferHours::kNo, PreferHours::kYes}) {
    EXPECT_THAT(find(kTwo + 40min, kTwo + 42min, prefer).files,
                ElementsAre(window(kTwo + 40min), window(kTwo + 41min)));
    EXPECT_THAT(find(kTwo + 20min, kTwo + 42min, prefer).files, ElementsAre(hour(kTwo)));
    EXPECT_THAT(find(kTwo, kTwo + 1h, prefer).files, ElementsAre(hour(kTwo)));
  }
}

// Whatever is asked, each window is there once: itself, or in an hour file.
TEST_F(RangeFilesTest, NoSampleIsThereTwice) {
  add_hour(kTwo, 60);
  add_hour(kTwo + 1h, 30);
  add_hour(kTwo + 2h, 0);
  for (int minute = 0; minute < 10; ++minute) add_window(kTwo + 3h + minute * 1min);
  for (const PreferHours prefer : {PreferHours::kNo, PreferHours::kYes}) {
    for (auto since = kTwo - 5min; since < kTwo + 3h; since += 7min) {
      for (auto until = since + 3min; until < kTwo + 4h; until += 11min) {
        std::set<std::string> seen;
        for (const HistoryFile& file : find(since, until, prefer).files) {
          const bool is_hour = file.directory == store_.hours_dir();
          const std::string of_hour = file.name.substr(0, 11);
          if (is_hour) {
            EXPECT_FALSE(seen.contains(of_hour)) << file.name;
          }
          EXPECT_FALSE(seen.contains("hour " + of_hour)) << file.name;
          EXPECT_TRUE(seen.insert(is_hour ? "hour " + of_hour : file.name).second);
          seen.insert(of_hour);
        }
      }
    }
  }
}

// The clock was set back after the file of the hour was made.
TEST_F(RangeFilesTest, WindowsOfAnHourThatCameAgainStandBesideItsFile) {
  add_hour(kTwo, 60);
  store_.adopt(WindowInfo{
      .name = window_name(kTwo + 30min) + "-2", .start = kTwo + 30min, .end = kTwo + 31min});
  EXPECT_THAT(find(kTwo, kTwo + 1h, PreferHours::kYes).files, SizeIs(2));
}

}  // namespace
}  // namespace profd
