#include "daemon/history/store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/daemon/history/fabricated_windows.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""s;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Time = std::chrono::system_clock::time_point;

// 2026-01-02T14:05:00Z, as `date -u -d @1767362700` says.
constexpr Time kStart{std::chrono::seconds(1'767'362'700)};

WindowRecord record_at(Time start) {
  return {.start = start,
          .end = start + 1min,
          .start_monotonic = 100s,
          .end_monotonic = 160s,
          .profiles = {{.owner = ProcessOwner{.uid = 1000, .gid = 100},
                        .cgroup = "/system.slice/a.service",
                        .labels = {.pid = 1, .comm = "a", .unit = "a.service"}},
                       {.owner = std::nullopt, .cgroup = "", .labels = {.pid = 2}}},
          .named_files = {"0011-22", "0011-22-u1000"}};
}

WindowInfo info_at(Time start, const std::string& name = {}) {
  return {.name = name.empty() ? window_name(start) : name,
          .start = start,
          .end = start + 1min,
          .disk_bytes = 8192};
}

class WindowStoreTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path windows() const { return scratch_.path() / "windows"; }
  [[nodiscard]] fs::path file_of(const std::string& name) const {
    return windows() / (name + ".pb.gz");
  }
  void write_file(const std::string& name, const std::string& bytes) const {
    fs::create_directories(windows());
    std::ofstream(windows() / name) << bytes;
  }
  [[nodiscard]] std::string add_window(Time start) const {
    return test::NamedWindow(start).add({.stacks = {{{"hot"}, 3}}}).write(windows());
  }
  WindowStore open() { return WindowStore::open(scratch_.path()).value(); }
  static std::vector<std::string> names_of(const std::vector<WindowInfo>& windows) {
    std::vector<std::string> names;
    for (const WindowInfo& window : windows) names.push_back(window.name);
    return names;
  }

  test::ScratchDirectory scratch_;
};

TEST(WindowFilesTest, ANameIsTheStartInUtc) { EXPECT_EQ(window_name(kStart), "20260102T140500Z"); }

TEST(WindowFilesTest, OnlyNamesOfWindowsAreWindows) {
  for (const char* name : {"20260102T140500Z", "20260102T140500Z-2", "20260102T140500Z-999"}) {
    EXPECT_TRUE(is_window_name(name)) << name;
  }
  for (const char* name : {"",
                           ".",
                           "..",
                           "20260102T140500",
                           "20260102T140500Z-",
                           ".partial-x",
                           "20260102T140500Z-1000",
                           "20260102T140500Z2",
                           "20260102 140500Z",
                           "19691231T235959Z",
                           "00000000T000000Z",
                           "22000101T000000Z",
                           "99991231T235959Z",
                           "20261301T000000Z",
                           "20260230T000000Z",
                           "20260102T240000Z",
                           "20260102T146000Z",
                           "20260102T140560Z",
                           "2026010XT140500Z",
                           "20260102T140500Z/..",
                           "20260102T140500Z-a"}) {
    EXPECT_FALSE(is_window_name(name)) << name;
  }
}

TEST(WindowFilesTest, ARecordIsReadAsItWasWritten) {
  const WindowRecord record = record_at(kStart);
  const Result<WindowRecord> read = parse_window_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(WindowFilesTest, AMalformedRecordIsRefused) {
  const std::string good = to_json(record_at(kStart));
  const auto with = [&good](const std::string& what, const std::string& instead) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), instead);
  };
  ASSERT_TRUE(parse_window_record(good));
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), good.substr(0, good.size() / 2),
        with("\"start_ns\":", "\"start\":"), with("\"uid\":1000", "\"uid\":-1"),
        with("\"start_ns\":", "\"start_ns\":9223372036854775808,\"was\":"),
        with("\"pid\":1", "\"pid\":\"1\"")}) {
    EXPECT_FALSE(parse_window_record(text)) << text;
  }
}

TEST_F(WindowStoreTest, StartsEmptyWithADirectoryOfItsOwn) {
  const WindowStore store = open();
  EXPECT_THAT(store.windows(), IsEmpty());
  EXPECT_EQ(store.disk_bytes(), 0U);
  struct stat status {};
  ASSERT_EQ(::stat(store.windows_dir().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST_F(WindowStoreTest, LoadsWindowsSortedByTimeWithTheirSizes) {
  const std::string later = add_window(kStart + 1min);
  const std::string earlier = add_window(kStart);
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(earlier, later));
  EXPECT_EQ(store.windows()[0].start, kStart);
  EXPECT_EQ(store.windows()[0].end, kStart + 1min);
  EXPECT_EQ(store.disk_bytes(), 2 * 4096U);
}

TEST_F(WindowStoreTest, RemovesIncompleteWindows) {
  const std::string kept = add_window(kStart);
  write_file(".partial-20260102T140600Z", "half");
  EXPECT_THAT(open().windows(), SizeIs(1));
  EXPECT_FALSE(fs::exists(windows() / ".partial-20260102T140600Z"));
  EXPECT_TRUE(fs::exists(file_of(kept)));
}

TEST_F(WindowStoreTest, RemovesWhatTheFirstReleaseLeft) {
  const std::string kept = add_window(kStart);
  fs::create_directories(windows() / "20260102T140000Z");
  std::ofstream(windows() / "20260102T140000Z" / "window.json") << "{}";
  fs::create_directories(scratch_.path() / "objects");
  std::ofstream(scratch_.path() / "objects" / "libc.so.6-93ac61ec.so") << "image";
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(kept));
  EXPECT_EQ(store.malformed(), 0U);
  EXPECT_FALSE(fs::exists(windows() / "20260102T140000Z"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "objects"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "damaged"));
}

TEST_F(WindowStoreTest, SetsMalformedWindowsAsideAndCountsThem) {
  const std::string good = add_window(kStart);
  const std::string cut = add_window(kStart + 1min);
  fs::resize_file(file_of(cut), fs::file_size(file_of(cut)) - 1);
  write_file(window_name(kStart + 2min) + ".pb.gz", "no window");
  write_file("not-a-window.pb.gz", test::NamedWindow(kStart).bytes());
  write_file(window_name(kStart + 3min), "no directory");
  write_file(window_name(kStart + 24h) + ".pb.gz", test::NamedWindow(kStart).bytes());  // a copy
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(good));
  EXPECT_EQ(store.malformed(), 5U);
  EXPECT_TRUE(fs::exists(scratch_.path() / "damaged" / (cut + ".pb.gz")));
  EXPECT_EQ(open().malformed(), 0U);
}

// Files that would be in every range.
TEST_F(WindowStoreTest, SetsWindowsOfAnAbsurdTimeAside) {
  const std::string good = add_window(kStart);
  const std::string bytes = test::NamedWindow(kStart).bytes();
  write_file("00000101T000000Z.pb.gz", bytes);
  write_file("99991231T235959Z.pb.gz", bytes);
  const std::chrono::system_clock::time_point epoch;
  write_file("20260102T150000Z.pb.gz", test::NamedWindow(epoch - 24h).bytes());
  write_file(good + "-2.pb.gz", test::NamedWindow(kStart, std::chrono::days(400)).bytes());
  write_file(good + "-3.pb.gz", test::NamedWindow(kStart, -60s).bytes());
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(good));
  EXPECT_EQ(store.malformed(), 5U);
  EXPECT_TRUE(fs::exists(scratch_.path() / "damaged" / "99991231T235959Z.pb.gz"));
}

// The size is right, but the file has blocks that never reached the disk.
TEST_F(WindowStoreTest, TheNewestWindowsAreDecodedAtTheStart) {
  const std::string good = add_window(kStart);
  const std::string bad = add_window(kStart + 1min);
  const auto bytes = static_cast<std::streamoff>(fs::file_size(file_of(bad)));
  std::fstream file(file_of(bad), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(bytes / 2);
  file << std::string(static_cast<std::size_t>(bytes - bytes / 2), '\0');
  file.close();
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(good));
  EXPECT_EQ(store.malformed(), 1U);
  EXPECT_EQ(store.disk_bytes(), 4096U);
}

TEST_F(WindowStoreTest, GivesANameThatIsNotTaken) {
  WindowStore store = open();
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z");
  store.adopt(info_at(kStart));
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z-2");
  store.adopt(info_at(kStart, "20260102T140500Z-2"));
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z-3");
}

TEST_F(WindowStoreTest, WindowsFollowEachOtherAsTheyWereWrittenThoughTheClockWasSetBack) {
  WindowStore store = open();
  const std::string first = window_name(kStart);
  const std::string second = window_name(kStart + 1min);
  const std::string set_back = window_name(kStart - 10min);
  store.adopt(info_at(kStart));
  store.adopt(info_at(kStart + 1min));
  store.adopt(info_at(kStart - 10min));
  EXPECT_THAT(store.names_after(""), ElementsAre(first, second, set_back));
  EXPECT_THAT(store.names_after(first), ElementsAre(second, set_back));
  EXPECT_THAT(store.names_after(second), ElementsAre(set_back));
  EXPECT_THAT(store.names_after(set_back), IsEmpty());
  EXPECT_THAT(store.names_after(window_name(kStart - 5min)), ElementsAre(first, second))
      << "by their names, as there is no such window";
}

TEST_F(WindowStoreTest, EvictsByAge) {
  WindowStore store = open();
  store.adopt(info_at(kStart));
  store.adopt(info_at(kStart + 1min));
  const WindowLimits limits{.max_age = 1h, .max_bytes = 1 << 30};
  EXPECT_THAT(store.evict(limits, kStart + 1h).windows, IsEmpty());
  EXPECT_THAT(store.evict(limits, kStart + 1h + 90s).windows, ElementsAre("20260102T140500Z"));
  EXPECT_EQ(store.disk_bytes(), 8192U);
  EXPECT_THAT(store.evict(limits, kStart + 2h).windows, SizeIs(1));
  EXPECT_EQ(store.disk_bytes(), 0U);
  EXPECT_THAT(store.windows(), IsEmpty());
}

TEST_F(WindowStoreTest, EvictsTheOldestUntilAllFit) {
  WindowStore store = open();
  for (int i = 0; i < 4; ++i) store.adopt(info_at(kStart + i * 1min));
  const WindowLimits limits{.max_age = 24h, .max_bytes = 2 * 8192};
  EXPECT_THAT(store.evict(limits, kStart + 5min).windows,
              ElementsAre(window_name(kStart), window_name(kStart + 1min)));
  EXPECT_EQ(store.disk_bytes(), limits.max_bytes);
}

HourInfo hour_at(Time start, const std::vector<std::string>& windows) {
  return {.name = window_name(start),
          .start = start,
          .end = start + 1h,
          .disk_bytes = 8192,
          .parts = {.windows = windows}};
}

// Of the hour from `start` on, with a window each half an hour.
void adopt_hour(WindowStore& store, Time start, bool with_file = true) {
  for (const auto offset : {0min, 30min}) store.adopt(info_at(start + offset));
  if (with_file) {
    store.adopt(hour_at(start, {window_name(start), window_name(start + 30min)}));
  }
}

std::vector<std::string> names_of_hours(const WindowStore& store) {
  std::vector<std::string> names;
  for (const HourInfo& hour : store.hours()) names.push_back(hour.name);
  return names;
}

// 2026-01-02 14:00:00 UTC
constexpr Time kHour{std::chrono::seconds(1'767'362'400)};

TEST_F(WindowStoreTest, WindowsAndHoursHaveAnAgeEach) {
  WindowStore store = open();
  adopt_hour(store, kHour);
  const WindowLimits limits{.max_age = 2h, .max_bytes = 1 << 30, .hours_max_age = 24h};
  EXPECT_THAT(store.evict(limits, kHour + 3h).windows,
              ElementsAre(window_name(kHour), window_name(kHour + 30min)));
  EXPECT_THAT(names_of_hours(store), ElementsAre(window_name(kHour)));
  EXPECT_EQ(store.disk_bytes(), 8192U);
  EXPECT_THAT(store.evict(limits, kHour + 25h).hours, IsEmpty());
  EXPECT_THAT(store.evict(limits, kHour + 25h + 1s).hours, ElementsAre(window_name(kHour)));
  EXPECT_EQ(store.disk_bytes(), 0U);
}

TEST_F(WindowStoreTest, AWindowIsKeptUntilAnHourFileHasIt) {
  WindowStore store = open();
  adopt_hour(store, kHour, false);
  const WindowLimits limits{.max_age = 2h, .max_bytes = 1 << 30, .hours_max_age = 24h};
  EXPECT_THAT(store.evict(limits, kHour + 20h).windows, IsEmpty());
  store.adopt(hour_at(kHour, {window_name(kHour)}));
  EXPECT_THAT(store.evict(limits, kHour + 20h).windows, ElementsAre(window_name(kHour)));
  EXPECT_THAT(store.evict(limits, kHour + 26h).windows, SizeIs(1)) << "too old for an hour file";
}

// Each file takes 8 KiB.
TEST_F(WindowStoreTest, WindowsInHourFilesGoFirstUntilWindowsTakeHalf) {
  WindowStore store = open();
  for (int i = 0; i < 4; ++i) adopt_hour(store, kHour + i * 1h);
  adopt_hour(store, kHour + 4h, false);  // not over yet
  const auto evict_to = [&store](std::uint64_t files) {
    return store.evict({.max_age = 240h, .max_bytes = files * 8192, .hours_max_age = 240h},
                       kHour + 5h);
  };
  EvictedFiles evicted = evict_to(12);  // 10 windows, 4 hours
  EXPECT_THAT(evicted.windows, ElementsAre(window_name(kHour), window_name(kHour + 30min)));
  EXPECT_THAT(evicted.hours, IsEmpty());
  evicted = evict_to(8);
  EXPECT_THAT(evicted.windows, SizeIs(4)) << "half of 8";
  EXPECT_THAT(evicted.hours, IsEmpty());
  // Now both kinds go by age: hours 0 to 2 end before the first window.
  evicted = evict_to(6);
  EXPECT_THAT(evicted.windows, ElementsAre(window_name(kHour + 3h)));
  EXPECT_THAT(evicted.hours, ElementsAre(window_name(kHour)));
  evicted = evict_to(0);
  EXPECT_THAT(evicted.hours, SizeIs(3));
  EXPECT_EQ(store.disk_bytes(), 0U);
}

TEST_F(WindowStoreTest, AnHourGoesAfterItsWindows) {
  WindowStore store = open();
  adopt_hour(store, kHour);
  const EvictedFiles evicted =
      store.evict({.max_age = 240h, .max_bytes = 8192, .hours_max_age = 240h}, kHour + 1h);
  EXPECT_THAT(evicted.windows, SizeIs(2));
  EXPECT_THAT(evicted.hours, IsEmpty());
}

TEST_F(WindowStoreTest, LoadsHoursAndKnowsTheirWindows) {
  const test::FabricatedWindows files;
  const std::string first = files.add(kHour, {{.stacks = {{{"hot"}, 3}}}});
  const std::string second = files.add(kHour + 1min, {{.stacks = {{{"hot"}, 3}}}});
  const std::string hour = files.add_hour(kHour, {first});
  const WindowStore store = files.open();
  ASSERT_THAT(names_of_hours(store), ElementsAre(hour));
  EXPECT_EQ(store.hours()[0].start, kHour);
  EXPECT_EQ(store.hours()[0].end, kHour + 1min);
  EXPECT_EQ(store.hours()[0].windows, 1U);
  EXPECT_EQ(store.windows()[0].hour, hour);
  EXPECT_EQ(store.windows()[1].hour, "");
  EXPECT_EQ(store.disk_bytes(), 3 * 4096U);
  EXPECT_EQ(store.unused_hour_name(kHour), hour + "-2");
  EXPECT_EQ(store.unused_hour_name(kHour + 1h), window_name(kHour + 1h));
}

TEST_F(WindowStoreTest, RemovedWindowsAreNamedToThoseWhoHaveReadTheOnesBefore) {
  WindowStore store = open();
  for (int i = 0; i < 4; ++i) store.adopt(info_at(kStart + i * 1min));
  const auto name_at = [](int minute) { return window_name(kStart + minute * 1min); };
  EXPECT_THAT(store.removed_after(name_at(0)), IsEmpty());
  const WindowLimits limits{.max_age = 24h, .max_bytes = 8192, .hours_max_age = 24h};
  EXPECT_THAT(store.evict(limits, kStart + 5min).windows, SizeIs(3));
  EXPECT_THAT(store.removed_after(name_at(0)), ElementsAre(name_at(1), name_at(2)));
  EXPECT_THAT(store.removed_after(name_at(2)), IsEmpty());
  EXPECT_THAT(store.removed_after(name_at(3)), IsEmpty());
  EXPECT_THAT(store.removed_after(name_at(-1)), ElementsAre(name_at(0), name_at(1), name_at(2)))
      << "by their names, as no such window is known";
  EXPECT_THAT(store.removed_after(""), IsEmpty()) << "nobody has missed these";
}

TEST_F(WindowStoreTest, RemovedWindowsFollowEachOtherThoughTheClockWasSetBack) {
  WindowStore store = open();
  const std::string first = window_name(kStart);
  const std::string set_back = window_name(kStart - 10min);
  const std::string last = window_name(kStart - 9min);
  store.adopt(info_at(kStart));
  store.adopt(info_at(kStart - 10min));
  store.adopt(info_at(kStart - 9min));
  const WindowLimits limits{.max_age = 24h, .max_bytes = 8192, .hours_max_age = 24h};
  EXPECT_THAT(store.evict(limits, kStart + 1min).windows, ElementsAre(set_back, last));
  EXPECT_THAT(store.removed_after(first), ElementsAre(set_back, last));
  EXPECT_THAT(store.removed_after(set_back), ElementsAre(last));
  EXPECT_THAT(store.names_after(set_back), IsEmpty()) << "the first was written before it";
}

TEST_F(WindowStoreTest, ANameThatIsGivenAgainIsThatOfTheNewerWindow) {
  WindowStore store = open();
  const WindowLimits limits{.max_age = 24h, .max_bytes = 0, .hours_max_age = 24h};
  for (int i = 0; i < 2; ++i) {
    store.adopt(info_at(kStart));
    EXPECT_THAT(store.evict(limits, kStart + 1min).windows, SizeIs(1));
  }
  EXPECT_THAT(store.removed_after(window_name(kStart)), IsEmpty());
}

TEST_F(WindowStoreTest, KnowsAFewThousandRemovedWindows) {
  WindowStore store = open();
  const WindowLimits limits{.max_age = 1h, .max_bytes = 0, .hours_max_age = 1h};
  constexpr int kMost = static_cast<int>(WindowStore::kMaxRemoved);
  for (int i = 0; i < kMost + 2; ++i) {
    store.adopt(info_at(kStart + i * 1min));
    EXPECT_THAT(store.evict(limits, kStart + i * 1min).windows, SizeIs(1));
  }
  const auto removed = store.removed_after(window_name(kStart - 1min));
  ASSERT_THAT(removed, SizeIs(WindowStore::kMaxRemoved));
  EXPECT_EQ(removed.front(), window_name(kStart + 2min));
}

TEST_F(WindowStoreTest, KnowsFromHoursWhichWindowsWereRemovedBeforeItsStart) {
  const test::FabricatedWindows files;
  const std::string first = files.add(kHour, {{.stacks = {{{"hot"}, 3}}}});
  const std::string second = files.add(kHour + 1min, {{.stacks = {{{"hot"}, 3}}}});
  const std::string third = files.add(kHour + 2min, {{.stacks = {{{"hot"}, 3}}}});
  (void)files.add_hour(kHour, {first, second, third});
  files.remove(first);
  files.remove(second);
  const WindowStore store = files.open();
  EXPECT_THAT(store.removed_after(first), ElementsAre(second));
  EXPECT_THAT(store.removed_after(window_name(kHour - 1min)), ElementsAre(first, second));
  EXPECT_THAT(store.removed_after(third), IsEmpty());
  EXPECT_THAT(store.names_after(first), ElementsAre(third));
}

TEST_F(WindowStoreTest, SetsCutAndForeignHoursAside) {
  const test::FabricatedWindows files;
  const std::string window = files.add(kHour, {{.stacks = {{{"hot"}, 3}}}});
  for (int i = 0; i < 3; ++i) (void)files.add_hour(kHour + i * 1h, {window});
  const auto path_at = [&files](int hour) {
    return files.hours() / (window_name(kHour + hour * 1h) + ".pb.gz");
  };
  fs::resize_file(path_at(0), fs::file_size(path_at(0)) - 1);
  fs::copy_file(files.windows() / (window + ".pb.gz"), path_at(1),
                fs::copy_options::overwrite_existing);
  // The newest has blocks that never reached the disk.
  const auto bytes = static_cast<std::streamoff>(fs::file_size(path_at(2)));
  std::fstream file(path_at(2), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(bytes - 100);
  file << std::string(100, '\0');
  file.close();
  std::ofstream(files.hours() / ".partial-20260102T140000Z") << "half";
  const WindowStore store = files.open();
  EXPECT_THAT(store.hours(), IsEmpty());
  EXPECT_EQ(store.malformed(), 3U);
  EXPECT_EQ(store.windows()[0].hour, "") << "another file of the hour can be made";
  EXPECT_TRUE(fs::is_empty(files.hours()));
  EXPECT_TRUE(fs::exists(files.state() / "damaged" / path_at(2).filename()));
}

TEST_F(WindowStoreTest, KeepsAMalformedWindowAndAMalformedHourOfOneName) {
  const test::FabricatedWindows files;
  const std::string file = window_name(kHour) + ".pb.gz";
  fs::create_directories(files.windows());
  fs::create_directories(files.hours());
  std::ofstream(files.windows() / file) << "a window";
  std::ofstream(files.hours() / file) << "an hour";
  EXPECT_EQ(files.open().malformed(), 2U);
  EXPECT_EQ(test::read_file(files.state() / "damaged" / file), "a window");
  EXPECT_EQ(test::read_file(files.state() / "damaged" / (file + ".2")), "an hour");
}

TEST_F(WindowStoreTest, KeepsAFewMalformedWindows) {
  for (int i = 0; i < 12; ++i) write_file(window_name(kStart + i * 1min) + ".pb.gz", "no window");
  EXPECT_EQ(open().malformed(), 12U);
  const fs::directory_iterator kept(scratch_.path() / "damaged");
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 10);
}

}  // namespace
}  // namespace profd
