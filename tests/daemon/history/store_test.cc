#include "daemon/history/store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

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
  for (const char* name : {"", ".", "..", "20260102T140500", "20260102T140500Z-", ".partial-x",
                           "20260102T140500Z-1000", "20260102T140500Z2", "20260102 140500Z",
                           "2026010XT140500Z", "20260102T140500Z/..", "20260102T140500Z-a"}) {
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
  const WindowStore store = open();
  EXPECT_THAT(names_of(store.windows()), ElementsAre(good));
  EXPECT_EQ(store.malformed(), 4U);
  EXPECT_TRUE(fs::exists(scratch_.path() / "damaged" / (cut + ".pb.gz")));
  EXPECT_EQ(open().malformed(), 0U);
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

TEST_F(WindowStoreTest, FindsTheWindowsOfARange) {
  WindowStore store = open();
  for (const auto offset : {0min, 1min, 2min}) {
    store.adopt(info_at(kStart + offset));
  }
  EXPECT_THAT(store.between(kStart, kStart + 3min), SizeIs(3));
  EXPECT_THAT(names_of(store.between(kStart + 1min, kStart + 90s)),
              ElementsAre(window_name(kStart + 1min)));
  EXPECT_THAT(names_of(store.between(kStart + 59s, kStart + 61s)),
              ElementsAre(window_name(kStart), window_name(kStart + 1min)));
  EXPECT_THAT(store.between(kStart + 3min, kStart + 4min), IsEmpty());
}

TEST_F(WindowStoreTest, EvictsByAge) {
  WindowStore store = open();
  store.adopt(info_at(kStart));
  store.adopt(info_at(kStart + 1min));
  const WindowLimits limits{.max_age = 1h, .max_bytes = 1 << 30};
  EXPECT_THAT(store.evict(limits, kStart + 1h), IsEmpty());
  EXPECT_THAT(store.evict(limits, kStart + 1h + 90s), ElementsAre("20260102T140500Z"));
  EXPECT_EQ(store.disk_bytes(), 8192U);
  EXPECT_THAT(store.evict(limits, kStart + 2h), SizeIs(1));
  EXPECT_EQ(store.disk_bytes(), 0U);
  EXPECT_THAT(store.windows(), IsEmpty());
}

TEST_F(WindowStoreTest, EvictsTheOldestUntilAllFit) {
  WindowStore store = open();
  for (int i = 0; i < 4; ++i) store.adopt(info_at(kStart + i * 1min));
  const WindowLimits limits{.max_age = 24h, .max_bytes = 2 * 8192};
  EXPECT_THAT(store.evict(limits, kStart + 5min),
              ElementsAre(window_name(kStart), window_name(kStart + 1min)));
  EXPECT_EQ(store.disk_bytes(), limits.max_bytes);
}

TEST_F(WindowStoreTest, KeepsAFewMalformedWindows) {
  for (int i = 0; i < 12; ++i) write_file(window_name(kStart + i * 1min) + ".pb.gz", "no window");
  EXPECT_EQ(open().malformed(), 12U);
  const fs::directory_iterator kept(scratch_.path() / "damaged");
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 10);
}

}  // namespace
}  // namespace profd
