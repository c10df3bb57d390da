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

  // A part of the map with functions beside each other, each with a name of 1,000 bytes.
  JitFileGrew part_of(const Map& map, std::size_t functions) {
    JitFileGrew part{.file = map.file, .read_ns = 1, .chunk = PerfMapChunk{}, .rows = {}};
    auto& lines = std::get<PerfMapChunk>(part.chunk).read.lines;
    for (std::size_t i = 0; i < functions; ++i) {
      lines.push_back({.address = next_ += 64, .bytes = 64, .name = name_});
    }
    return part;
  }

  // Adds functions until the map has so many bytes, or its source has ended. Returns whether the
  // source is still read.
  bool grow(const Map& map, std::size_t bytes) {
    while (map.code->bytes < bytes && !map.source->has_ended()) {
      (void)sources_->apply(part_of(map, 256));
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

  const std::string name_ = std::string(1000, 'n');
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

TEST_F(JitSourcesTest, APartIsAppliedInTurnsOfLimitedLength) {
  constexpr std::size_t kTurns = 3;
  const Map map = map_of(kOther);
  const JitFileGrew part = part_of(map, kTurns * JitSource::kMaxStepsOfTurn);
  std::size_t turns = 0;
  do {
    const std::uint64_t before = map.code->loads;
    (void)sources_->apply(part);
    EXPECT_LE(map.code->loads - before, JitSource::kMaxStepsOfTurn);
    ++turns;
  } while (sources_->has_more());
  EXPECT_EQ(map.code->index.functions(), kTurns * JitSource::kMaxStepsOfTurn);
  EXPECT_LE(turns, kTurns + 1);
  EXPECT_EQ(stats_.events, kTurns * JitSource::kMaxStepsOfTurn) << "counted once";
}

// The unwind data of one object may have 65,536 functions.
TEST_F(JitSourcesTest, TheUnwindRowsOfOneEventAreAppliedInTurnsOfLimitedLength) {
  constexpr std::size_t kFunctions = 2 * JitSource::kMaxStepsOfTurn;
  const auto file = std::make_shared<const JitFile>(
      JitFile{.id = {.device = 1, .inode = ++files_, .owner = kOther},
              .kind = JitFileKind::kJitDump,
              .path = "/tmp/jit-1.dump"});
  const auto source = sources_->find_or_add(file);
  const auto code = source->code_map_of(1);
  JitFileGrew part{.file = file, .read_ns = 1, .chunk = JitDumpChunk{}, .rows = {}};
  auto& chunk = std::get<JitDumpChunk>(part.chunk);
  chunk.state.pid = 1;
  chunk.state.header_read = true;
  chunk.read.events.resize(2);
  chunk.read.events[0].kind = JitDumpEventKind::kUnwindingInfo;
  chunk.read.events[1].pid = 1;
  chunk.read.events[1].address = 0x10;
  chunk.read.events[1].code_bytes = 1;
  for (std::size_t i = 0; i < kFunctions; ++i) {
    const std::uint64_t start = next_ += 64;
    part.rows[0].push_back({.start = start, .end = start + 64, .rows = {{.offset = start}}});
  }
  (void)sources_->apply(part);
  EXPECT_LE(code->rows.changes(), JitSource::kMaxStepsOfTurn);
  EXPECT_EQ(code->loads, 0U);
  while (sources_->has_more()) (void)sources_->apply(part);
  EXPECT_EQ(code->rows.changes(), kFunctions);
  EXPECT_EQ(code->loads, 1U);
}

TEST_F(JitSourcesTest, APartEndsWhereTheShareIsUsedUp) {
  const Map first = map_of(kOther);
  const Map second = map_of(kSubordinate);
  const Map third = map_of(kOther);
  ASSERT_TRUE(grow(first, kPart));
  ASSERT_TRUE(grow(second, kPart));
  const JitFileGrew part = part_of(third, 12 * 1024);
  do (void)sources_->apply(part);
  while (sources_->has_more());
  EXPECT_TRUE(third.source->has_ended());
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
  EXPECT_LT(third.code->loads, 9 * 1024U);
  EXPECT_LE(bytes(), JitSources::kMaxBytesOfUser + kMiB);
}

TEST_F(JitSourcesTest, AUserWhoIsOverTheShareGetsNothingOfFurtherFiles) {
  ASSERT_TRUE(grow(map_of(kOther), kPart));
  ASSERT_TRUE(grow(map_of(kOther), kPart));
  ASSERT_FALSE(grow(map_of(kOther), kPart));
  for (int i = 0; i < 20; ++i) {
    const Map further = map_of(kOther);
    (void)sources_->apply(part_of(further, 200));
    EXPECT_TRUE(further.source->has_ended());
    EXPECT_EQ(further.code->index.functions(), 0U);
  }
  EXPECT_EQ(refused(JitRefusal::kOverShare), 21U);
}

// By bind mounts, any number of processes can have one file as their perf maps.
TEST_F(JitSourcesTest, APerfMapHasTheCodeOfOnePid) {
  const Map map = map_of(kOther);
  EXPECT_EQ(map.source->code_map_of(2), nullptr);
  EXPECT_EQ(map.source->code_map_of(1), map.code);
  (void)sources_->apply(part_of(map, 10));
  EXPECT_EQ(map.code->index.functions(), 10U);
}

}  // namespace
}  // namespace profd::test
