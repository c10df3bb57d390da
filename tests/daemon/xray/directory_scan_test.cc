#include "daemon/xray/directory_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "formats/base/unique_fd.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

class DirectoryScanTest : public ::testing::Test {
 protected:
  void add(const std::string& name) const { std::ofstream file(place_.path() / name); }
  void begin() {
    ASSERT_TRUE(fd_.valid());
    ASSERT_TRUE(scan_.begin(fd_.get()));
  }
  // Returns false when the walk is over.
  bool step() {
    std::size_t found = 0;
    const bool has_more = scan_.step([&](const char* name, const struct stat& status) {
      ++found;
      found_.insert(name);
      EXPECT_GT(status.st_ctim.tv_sec, 0) << name;
    });
    most_ = std::max(most_, found);
    return has_more;
  }

  TemporaryDirectory place_;
  UniqueFd fd_{::open(place_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  DirectoryScan scan_;
  std::multiset<std::string> found_;
  std::size_t most_ = 0;  // that one step found
};

TEST_F(DirectoryScanTest, FindsManyTracesAFewAtATime) {
  constexpr std::size_t kTraces = 10'000;
  std::set<std::string> names;
  for (std::size_t i = 0; i < kTraces; ++i) {
    const std::string name = "xray-log.work." + std::to_string(i);
    add(name);
    names.insert(name);
  }
  begin();
  std::size_t steps = 1;
  while (step() && steps < kTraces + 3) ++steps;  // each sees one entry at least
  EXPECT_LE(most_, 64U);
  EXPECT_GE(steps, kTraces / 64);
  EXPECT_EQ(found_.size(), kTraces) << "each once";
  EXPECT_TRUE(std::ranges::equal(found_, names));
}

TEST_F(DirectoryScanTest, FindsOnlyTraces) {
  add("work.log");
  add("xray-log");
  add("xray-log.work.aaaaaa");
  std::filesystem::create_symlink("nowhere", place_.path() / "xray-log.link.bbbbbb");
  begin();
  for (int i = 0; i < 10 && step(); ++i) {
  }
  EXPECT_THAT(found_, testing::ElementsAre("xray-log.link.bbbbbb", "xray-log.work.aaaaaa"));
}

TEST_F(DirectoryScanTest, CanBeginAgainAtAnyTime) {
  EXPECT_FALSE(step()) << "not begun";
  for (int i = 0; i < 200; ++i) add("xray-log.work." + std::to_string(i));
  begin();
  EXPECT_TRUE(step());
  found_.clear();
  begin();
  for (int i = 0; i < 300 && step(); ++i) {
  }
  EXPECT_EQ(found_.size(), 200U);
  EXPECT_FALSE(step()) << "the walk is over";
}

TEST_F(DirectoryScanTest, SaysThatItEndedAtItsLimit) {
  constexpr std::size_t kEntries = 10;  // and "." and ".."
  for (std::size_t i = 0; i < kEntries; ++i) add("xray-log.work." + std::to_string(i));
  for (const std::size_t limit : {kEntries + 1, kEntries + 2}) {
    scan_ = DirectoryScan(limit);
    found_.clear();
    begin();
    for (std::size_t i = 0; i < kEntries + 3 && step(); ++i) {
    }
    EXPECT_EQ(scan_.was_cut(), limit < kEntries + 2) << limit;
    EXPECT_GE(found_.size(), limit - 2);
  }
}

TEST_F(DirectoryScanTest, ADirectoryThatIsNotOpenIsAnError) {
  EXPECT_FALSE(scan_.begin(-1));
  EXPECT_FALSE(step());
}

}  // namespace
}  // namespace profd
