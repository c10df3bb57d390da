// The memory for the code of JIT sources, as users share it.

#include "collectors/jit/sources.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

class JitSourcesTest : public testing::Test {
 protected:
  // A perf map of a user that grows as long as it is read.
  struct Map {
    std::shared_ptr<const JitFile> file;
    std::shared_ptr<JitSource> source;
    std::shared_ptr<JitCodeMap> code;  // as its process has it
  };

  void SetUp() override {
    auto follower = JitFollower::start({});
    ASSERT_TRUE(follower) << follower.error().message;
    follower_ = std::move(*follower);
    sources_ = std::make_unique<JitSources>(*follower_, stats_, owners_);
  }

  Map map_of(std::uint32_t owner) {
    Map map;
    map.file = std::make_shared<const JitFile>(
        JitFile{.id = {.device = 1, .inode = ++files_, .owner = owner},
                .kind = JitFileKind::kPerfMap,
                .path = "/tmp/perf-1.map"});
    map.source = sources_->find_or_add(map.file);
    map.code = map.source->code_map_of(1);
    return map;
  }

  // Adds functions until the map has so many bytes, or its source has ended. Returns whether the
  // source is still read.
  bool grow(const Map& map, std::size_t bytes) {
    const std::string name(1000, 'n');
    while (map.code->bytes < bytes && !map.source->has_ended()) {
      JitFileGrew part{.file = map.file, .read_ns = 1, .chunk = PerfMapChunk{}, .rows = {}};
      auto& lines = std::get<PerfMapChunk>(part.chunk).read.lines;
      for (int i = 0; i < 256; ++i) {
        lines.push_back({.address = next_ += 64, .bytes = 64, .name = name});
      }
      (void)sources_->apply(part);
    }
    return !map.source->has_ended();
  }

  [[nodiscard]] std::size_t bytes() const {
    JitStats stats;
    sources_->add_to(stats);
    return stats.bytes;
  }
  [[nodiscard]] std::uint64_t refused(JitRefusal reason) const {
    return stats_.refused[static_cast<std::size_t>(reason)];
  }

  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  static constexpr std::size_t kPart = 12 * kMiB;  // less than the names that one map may have

  PrivateDirectory directory_;
  UserRefusals users_;
  JitStats stats_;
  UidOwners owners_ = owners_with_subordinates(directory_);
  std::unique_ptr<JitFollower> follower_;
  std::unique_ptr<JitSources> sources_;
  std::uint64_t files_ = 0;
  std::uint64_t next_ = 0x10000;
};

TEST_F(JitSourcesTest, AUserHasAtMostHisShareOfTheMemory) {
  const Map first = map_of(kOther);
  const Map second = map_of(kSubordinate);
  const Map third = map_of(kSubordinate + 1);
  EXPECT_TRUE(grow(first, kPart));
  EXPECT_TRUE(grow(second, kPart));
  EXPECT_FALSE(grow(third, kPart));
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
  EXPECT_TRUE(grow(map_of(kOther + 1), kPart));
}

// Five users with 24 MiB each, and root: the sixth user's code takes their place.
TEST_F(JitSourcesTest, TheUserWithTheMostLosesTheCodeForAnother) {
  stats_.users = &users_;
  const Map roots = map_of(0);
  EXPECT_TRUE(grow(roots, kPart));
  std::map<std::uint32_t, std::vector<Map>> maps;
  for (std::uint32_t user = 1000; user < 1005; ++user) {
    for (int i = 0; i < 2; ++i) {
      maps[user].push_back(map_of(user));
      ASSERT_TRUE(grow(maps[user].back(), kPart));
    }
  }
  maps[1003].push_back(map_of(1003));
  ASSERT_TRUE(grow(maps[1003].back(), kMiB));  // the user with the most
  const Map others = map_of(2000);
  EXPECT_TRUE(grow(others, kPart));
  EXPECT_EQ(others.code->index.functions(), others.code->loads);
  EXPECT_LE(bytes() - roots.code->bytes, JitSources::kMaxBytesOfUsers);
  EXPECT_EQ(roots.code->index.functions(), roots.code->loads);
  for (const auto& [user, of_user] : maps) {
    for (const Map& map : of_user) {
      EXPECT_EQ(map.source->has_ended(), user == 1003) << user;
      EXPECT_EQ(map.code->index.functions(), user == 1003 ? 0 : map.code->loads) << user;
    }
  }
  EXPECT_EQ(
      users_.users(),
      std::vector({StatusInfo::User{.uid = 1003, .refused = {{"jit.refused.over_share", 3}}}}));
}

}  // namespace
}  // namespace profd::test
