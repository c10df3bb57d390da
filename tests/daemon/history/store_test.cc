#include "daemon/history/store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

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

WindowRecord record_at(Time start, std::vector<std::string> objects = {}) {
  return {.start = start,
          .end = start + 1min,
          .start_monotonic = 100s,
          .end_monotonic = 160s,
          .disk_bytes = 8192,
          .objects = std::move(objects),
          .profiles = {{.path = "a.1.prof",
                        .owner = ProcessOwner{.uid = 1000, .gid = 100},
                        .cgroup = "/system.slice/a.service"},
                       {.path = "b.2.prof", .owner = std::nullopt, .cgroup = ""}}};
}

WindowInfo info_of(const std::string& name, const WindowRecord& record) {
  return {.name = name, .start = record.start, .end = record.end, .disk_bytes = record.disk_bytes};
}

class WindowStoreTest : public testing::Test {
 protected:
  void write_window(const std::string& name, const std::string& record) {
    const fs::path path = scratch_.path() / "windows" / name;
    fs::create_directories(path);
    std::ofstream(path / kWindowRecordFile) << record;
  }
  void write_object(const std::string& name, std::size_t bytes) {
    fs::create_directories(scratch_.path() / "objects");
    std::ofstream(scratch_.path() / "objects" / name) << std::string(bytes, 'x');
  }
  std::string add_window(Time start, std::vector<std::string> objects = {}) {
    const std::string name = window_name(start);
    write_window(name, to_json(record_at(start, std::move(objects))));
    return name;
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
  for (const char* name : {"", ".", "..", "20260102T140500", "20260102T140500Z-", ".partial-x",
                           "20260102T140500Z-1000", "20260102T140500Z2", "20260102 140500Z",
                           "2026010XT140500Z", "20260102T140500Z/..", "20260102T140500Z-a"}) {
    EXPECT_FALSE(is_window_name(name)) << name;
  }
}

TEST(WindowFilesTest, OnlyPlainFileNamesAreObjects) {
  EXPECT_TRUE(is_object_name("libc.so.6-93ac61ec.so"));
  for (const std::string name : {"", ".", "..", ".hidden", "a/b", "a b", "a\n", "\xc3\xa4.so"}) {
    EXPECT_FALSE(is_object_name(name)) << name;
  }
  EXPECT_FALSE(is_object_name(std::string(241, 'a')));
}

TEST(WindowFilesTest, ARecordIsReadAsItWasWritten) {
  const WindowRecord record = record_at(kStart, {"libc.so.6-93ac61ec.so"});
  const Result<WindowRecord> read = parse_window_record(to_json(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST(WindowFilesTest, AMalformedRecordIsRefused) {
  const std::string good = to_json(record_at(kStart, {"x.so"}));
  const auto with = [&good](const std::string& what, const std::string& instead) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), instead);
  };
  ASSERT_TRUE(parse_window_record(good));
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), good.substr(0, good.size() / 2),
        with("x.so", "../../etc/passwd"), with("\"start_ns\":", "\"start\":"),
        with("\"uid\":1000", "\"uid\":-1"), with("\"a.1.prof\"", "7")}) {
    EXPECT_FALSE(parse_window_record(text)) << text;
  }
}

TEST_F(WindowStoreTest, StartsEmptyWithDirectoriesOfItsOwn) {
  const WindowStore store = open();
  EXPECT_THAT(store.windows(), IsEmpty());
  EXPECT_EQ(store.disk_bytes(), 0U);
  for (const std::string& path : {store.windows_dir(), store.objects_dir()}) {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & 0777U, 0700U) << path;
  }
}

TEST_F(WindowStoreTest, LoadsWindowsSortedByTimeWithTheirSizes) {
  const std::string later = add_window(kStart + 1min, {"x.so"});
  const std::string earlier = add_window(kStart, {"x.so"});
  write_object("x.so", 5000);
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(earlier, later));
  EXPECT_EQ(store.windows()[0].end, kStart + 1min);
  EXPECT_EQ(store.disk_bytes(), 2 * 8192U + 8192U);
  EXPECT_EQ(store.objects(), 1U);
}

TEST_F(WindowStoreTest, RemovesIncompleteWindowsAndObjectsOfNoWindow) {
  add_window(kStart, {"x.so"});
  write_window(".partial-abcdef", "{}");
  write_window(".removed-20260102T140400Z", "{}");
  write_object("x.so", 1);
  write_object("orphan.so", 1);
  write_object(".x.so", 1);
  EXPECT_THAT(open().windows(), SizeIs(1));
  EXPECT_FALSE(fs::exists(scratch_.path() / "windows/.partial-abcdef"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "windows/.removed-20260102T140400Z"));
  EXPECT_TRUE(fs::exists(scratch_.path() / "objects/x.so"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "objects/orphan.so"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "objects/.x.so"));
}

TEST_F(WindowStoreTest, SetsMalformedWindowsAsideAndCountsThem) {
  const std::string good = add_window(kStart);
  write_window(window_name(kStart + 1min), "no record");
  write_window("not-a-window", to_json(record_at(kStart)));
  fs::create_directories(scratch_.path() / "windows" / window_name(kStart + 2min));
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(good));
  EXPECT_EQ(store.malformed(), 3U);
  EXPECT_TRUE(fs::exists(scratch_.path() / "damaged" / window_name(kStart + 1min)));
  EXPECT_EQ(open().malformed(), 0U);
}

TEST_F(WindowStoreTest, GivesANameThatIsNotTaken) {
  WindowStore store = open();
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z");
  store.adopt(info_of("20260102T140500Z", record_at(kStart)), {});
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z-2");
  store.adopt(info_of("20260102T140500Z-2", record_at(kStart)), {});
  EXPECT_EQ(store.unused_name(kStart), "20260102T140500Z-3");
}

TEST_F(WindowStoreTest, FindsTheWindowsOfARange) {
  WindowStore store = open();
  for (const auto offset : {0min, 1min, 2min}) {
    store.adopt(info_of(window_name(kStart + offset), record_at(kStart + offset)), {});
  }
  EXPECT_THAT(store.between(kStart, kStart + 3min), SizeIs(3));
  EXPECT_THAT(names_of(store.between(kStart + 1min, kStart + 90s)),
              ElementsAre(window_name(kStart + 1min)));
  EXPECT_THAT(names_of(store.between(kStart + 59s, kStart + 61s)),
              ElementsAre(window_name(kStart), window_name(kStart + 1min)));
  EXPECT_THAT(store.between(kStart + 3min, kStart + 4min), IsEmpty());
}

TEST_F(WindowStoreTest, EvictsByAgeWithTheObjectsThatNoOtherNeeds) {
  WindowStore store = open();
  store.adopt(info_of("20260102T140500Z", record_at(kStart)), {"old.so", "both.so"});
  store.adopt(info_of("20260102T140600Z", record_at(kStart + 1min)), {"both.so"});
  store.set_object_bytes("old.so", 4096);
  store.set_object_bytes("both.so", 12288);
  const WindowLimits limits{.max_age = 1h, .max_bytes = 1 << 30};
  Evicted evicted = store.evict(limits, kStart + 1h);
  EXPECT_THAT(evicted.windows, IsEmpty());
  evicted = store.evict(limits, kStart + 1h + 90s);
  EXPECT_THAT(evicted.windows, ElementsAre("20260102T140500Z"));
  EXPECT_THAT(evicted.objects, ElementsAre("old.so"));
  EXPECT_EQ(store.disk_bytes(), 8192U + 12288U);
  evicted = store.evict(limits, kStart + 2h);
  EXPECT_THAT(evicted.objects, ElementsAre("both.so"));
  EXPECT_EQ(store.disk_bytes(), 0U);
  EXPECT_THAT(store.windows(), IsEmpty());
}

TEST_F(WindowStoreTest, EvictsTheOldestUntilAllFitWithObjectsCountedOnce) {
  WindowStore store = open();
  for (int i = 0; i < 4; ++i) {
    store.adopt(info_of(window_name(kStart + i * 1min), record_at(kStart + i * 1min)), {"x.so"});
  }
  store.set_object_bytes("x.so", 8192);
  store.set_object_bytes("x.so", 16384);  // it grew
  EXPECT_EQ(store.disk_bytes(), 4 * 8192U + 16384U);
  const WindowLimits limits{.max_age = 24h, .max_bytes = 2 * 8192 + 16384};
  const Evicted evicted = store.evict(limits, kStart + 5min);
  EXPECT_THAT(evicted.windows, ElementsAre(window_name(kStart), window_name(kStart + 1min)));
  EXPECT_THAT(evicted.objects, IsEmpty());
  EXPECT_EQ(store.disk_bytes(), limits.max_bytes);
}

TEST_F(WindowStoreTest, TheNextEvictionRemovesAnObjectThatAFailedWindowLeft) {
  WindowStore store = open();
  store.adopt(info_of("20260102T140500Z", record_at(kStart)), {"kept.so"});
  store.set_object_bytes("kept.so", 4096);
  store.set_object_bytes("left.so", 4096);
  const Evicted evicted = store.evict({.max_age = 1h, .max_bytes = 1 << 30}, kStart);
  EXPECT_THAT(evicted.objects, ElementsAre("left.so"));
  EXPECT_THAT(evicted.windows, IsEmpty());
}

TEST_F(WindowStoreTest, KeepsAFewMalformedWindows) {
  for (int i = 0; i < 12; ++i) write_window(window_name(kStart + i * 1min), "no record");
  EXPECT_EQ(open().malformed(), 12U);
  const fs::directory_iterator kept(scratch_.path() / "damaged");
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 10);
}

}  // namespace
}  // namespace profd
