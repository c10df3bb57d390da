#include "collectors/unwinding/table_cache.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

namespace fs = std::filesystem;

class TableCacheTest : public testing::Test {
 protected:
  TableCacheTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-cache-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~TableCacheTest() override { fs::remove_all(root_); }

  [[nodiscard]] std::string directory() const { return root_ / "unwind"; }
  [[nodiscard]] TableCache open(std::uint64_t max_bytes = TableCache::kMaxBytes) const {
    auto cache = TableCache::open(directory(), max_bytes);
    EXPECT_TRUE(cache) << cache.error().message;
    return std::move(*cache);
  }
  [[nodiscard]] fs::path only_table() const {
    for (const auto& entry : fs::directory_iterator(directory())) {
      if (entry.path().extension() == ".rows") return entry.path();
    }
    return {};
  }

  [[nodiscard]] std::set<std::string> names(const std::string& beginning) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory())) {
      const std::string name = entry.path().filename();
      if (name.starts_with(beginning) && name.ends_with(".rows")) names.insert(name);
    }
    return names;
  }

  fs::path root_;
};

TEST_F(TableCacheTest, AStoredTableIsFoundAfterARestart) {
  const std::string table(5000, 'x');
  open().store("0-ab-cd", table);
  const TableCache again = open();
  EXPECT_EQ(again.find("0-ab-cd"), table);
  EXPECT_EQ(again.find("0-ab-ce"), std::nullopt);
}

TEST_F(TableCacheTest, TheKeyIsSecretAndIsKept) {
  const DigestKey first = open().key();
  const DigestKey second = open().key();
  EXPECT_EQ(first.words[0], second.words[0]);
  EXPECT_EQ(first.words[1], second.words[1]);
  struct stat status {};
  ASSERT_EQ(::stat((directory() + "/key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(TableCacheTest, AMalformedKeyIsReplaced) {
  const DigestKey first = open().key();
  fs::resize_file(directory() + "/key", 3);
  EXPECT_NE(open().key().words[0], first.words[0]);
}

TEST_F(TableCacheTest, WithoutADirectoryNothingIsStored) {
  auto cache = TableCache::open("");
  ASSERT_TRUE(cache);
  cache->store("name", "table");
  EXPECT_EQ(cache->find("name"), std::nullopt);
  EXPECT_NE(cache->key().words[0], TableCache::open("")->key().words[0]);
}

struct Change {
  const char* name;
  std::function<void(const fs::path&)> change;
};

class MalformedCacheTest : public TableCacheTest, public testing::WithParamInterface<Change> {};

TEST_P(MalformedCacheTest, IsIgnoredUntilItIsStoredAgain) {
  TableCache cache = open();
  const std::string table(5000, 'x');
  cache.store("name", table);
  GetParam().change(only_table());
  EXPECT_EQ(cache.find("name"), std::nullopt);
  cache.store("name", table);
  EXPECT_EQ(cache.find("name"), table);
}

// Whatever the byte is, it has another value afterwards.
void change_byte(const fs::path& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}

INSTANTIATE_TEST_SUITE_P(
    TableCacheTest, MalformedCacheTest,
    testing::Values(Change{"Empty", [](const fs::path& path) { fs::resize_file(path, 0); }},
                    Change{"Truncated", [](const fs::path& path) { fs::resize_file(path, 3000); }},
                    Change{"OtherMagic", [](const fs::path& path) { change_byte(path, 0); }},
                    Change{"OfAnotherBuild", [](const fs::path& path) { change_byte(path, 8); }},
                    Change{"InvalidSize", [](const fs::path& path) { change_byte(path, 22); }},
                    Change{"OneByte", [](const fs::path& path) { change_byte(path, 4000); }},
                    Change{"Removed", [](const fs::path& path) { fs::remove(path); }},
                    Change{"ALink",
                           [](const fs::path& path) {
                             fs::rename(path, path.string() + ".other");
                             fs::create_symlink(path.string() + ".other", path);
                           }}),
    [](const auto& change) { return std::string(change.param.name); });

TEST_F(TableCacheTest, TheLeastRecentlyUsedFilesAreRemovedOverTheLimitOfBytes) {
  TableCache cache = open(10'000);
  const std::string table(1000, 'x');
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    cache.store(name, table);
    // The clock of file times has the resolution of a tick.
    timespec times[2] = {{.tv_sec = name[0], .tv_nsec = 0}, {.tv_sec = name[0], .tv_nsec = 0}};
    ::utimensat(AT_FDCWD, (directory() + "/" + name + ".rows").c_str(), times, 0);
  }
  ASSERT_TRUE(cache.find("a"));  // now the most recent
  cache.store("j", table);
  EXPECT_TRUE(cache.find("a"));
  EXPECT_TRUE(cache.find("j"));
  EXPECT_FALSE(cache.find("b"));
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory())) bytes += entry.file_size();
  EXPECT_LE(bytes, 10'000U);
}

TEST_F(TableCacheTest, OnASmallDiskMostRoomIsLeftForWindows) {
  constexpr std::uint64_t kDisk = 4 << 20;
  fs::create_directory(directory());
  ASSERT_EQ(::mount("profd-test", directory().c_str(), "tmpfs", 0, "size=4m"), 0) << "needs root";
  {
    TableCache cache = open();
    const auto store = [&cache](int number) {
      cache.store("0-" + std::to_string(number), std::string(100'000, 'x'));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the tick of file times
    };
    for (int i = 0; i < 30; ++i) store(i);
    EXPECT_TRUE(cache.find("0-29"));
    EXPECT_GE(fs::space(directory()).available, kDisk / 4 * 3 - 100'000);
    std::ofstream(directory() + "/others") << std::string(kDisk / 4 * 3 - 200'000, 'x');
    store(30);
    EXPECT_TRUE(cache.find("0-30"));
    EXPECT_FALSE(cache.find("0-27")) << "there is less room now";
    cache.store("0-large", std::string(kDisk / 4, 'x'));
    EXPECT_FALSE(cache.find("0-large"));
  }
  EXPECT_EQ(::umount(directory().c_str()), 0);
}

// A small file needs an inode too, so the number of files is limited.
TEST_F(TableCacheTest, TheLeastRecentlyUsedFilesAreRemovedOverTheLimitOfFiles) {
  auto cache = TableCache::open(directory(), TableCache::kMaxBytes, 100);
  ASSERT_TRUE(cache);
  for (int i = 0; i < 300; ++i) cache->store("0-" + std::to_string(i), "x");
  const auto files = std::distance(fs::directory_iterator(directory()), fs::directory_iterator());
  EXPECT_LE(files, 100 + 1) << "and the key";
  EXPECT_TRUE(cache->find("0-299"));
}

// The oldest files are root's, and those of a user who stores little.
TEST_F(TableCacheTest, OneUsersTablesDoNotRemoveThoseOfOthers) {
  auto cache = TableCache::open(directory(), TableCache::kMaxBytes, 100);
  ASSERT_TRUE(cache);
  const auto store = [&cache](int uid, int first, int last) {
    for (int i = first; i < last; ++i) {
      cache->store(std::to_string(uid) + "-" + std::to_string(i), "x");
    }
  };
  store(0, 0, 45);  // half of what stays when the oldest are removed
  store(1001, 0, 5);
  store(1002, 0, 500);
  EXPECT_EQ(names("0-").size(), 45);
  EXPECT_EQ(names("1001-").size(), 5);
  EXPECT_TRUE(names("1002-").contains("1002-499.rows"));
  for (int uid = 1003; uid < 1050; ++uid) store(uid, 0, 10);
  EXPECT_EQ(names("0-").size(), 45) << "all users together";
  store(0, 45, 500);
  EXPECT_LE(names("").size(), 100);
  EXPECT_TRUE(names("0-").contains("0-499.rows"));
}

TEST_F(TableCacheTest, SubordinateUidsAreTheirUser) {
  std::ofstream(root_ / "subuid") << "somebody:100000:65536\n";
  std::ofstream(root_ / "passwd") << "somebody:x:1001:1001::/:/bin/sh\n";
  auto cache = TableCache::open(directory(), TableCache::kMaxBytes, 100,
                                UidOwners(root_ / "subuid", root_ / "passwd"));
  ASSERT_TRUE(cache);
  for (int i = 0; i < 30; ++i) cache->store("1002-" + std::to_string(i), "x");
  for (int i = 0; i < 500; ++i) cache->store(std::to_string(100'000 + i) + "-a", "x");
  constexpr std::size_t kEighth = 90 / 8;  // of what stays when the oldest are removed
  EXPECT_EQ(names("1002-").size(), kEighth);
  EXPECT_LE(names("").size(), 100);
}

}  // namespace
}  // namespace profd
