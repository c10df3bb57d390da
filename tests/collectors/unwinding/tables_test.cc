// Tables in fake maps: what the programs would find, sharing, limits and eviction.

#include "collectors/unwinding/tables.h"

#include <memory_resource>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/unwinding/fake_table_maps.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kArenaWords = 1024;
constexpr std::uint64_t kRegion = std::uint64_t{1} << PROFD_FILE_REGION_SHIFT;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kUser = 1000;

MappedCode file(std::uint64_t inode, std::uint32_t payer = kRoot, std::uint64_t regions = 1) {
  return {.key = {.inode = inode, .size_bytes = kRegion * 8}, .payer = payer, .regions = regions};
}

// CFA = rsp + offset. With an odd offset it needs the dictionary.
profd_rule rule(std::int32_t offset) {
  profd_rule made{};
  made.kind = PROFD_RULE_REGISTER;
  made.cfa_register = PROFD_DWARF_RSP;
  made.cfa_offset = offset;
  made.ra_saved = PROFD_SAVED_AT_CFA;
  made.ra_offset = -8;
  return made;
}

// Rows at each offset of the list, with its rule.
std::string table_of(const std::vector<std::pair<std::uint64_t, profd_rule>>& rows) {
  UnwindTableWriter writer;
  for (const auto& [offset, rule] : rows) writer.add({.offset = offset, .rule = rule});
  auto encoded = writer.encode();
  EXPECT_TRUE(encoded);
  return *encoded;
}

// A table with so many rows, with alternating rules.
std::string table_of(std::size_t rows) {
  std::vector<std::pair<std::uint64_t, profd_rule>> list;
  for (std::size_t i = 0; i < rows; ++i) list.emplace_back(i * 4, rule(i % 2 == 0 ? 8 : 16));
  return table_of(list);
}

class UnwindTablesTest : public testing::Test {
 protected:
  static constexpr UnwindTablesLimits kLimits{.max_bytes = 4 * kArenaWords * 4,
                                              .arena_words = kArenaWords,
                                              .max_entries = 64,
                                              .max_rules_of_table = 100};

  explicit UnwindTablesTest(std::size_t rules = PROFD_MAX_RULES) : state_(kArenaWords, rules) {
    tables_.tick(now_ns_);
  }

  std::optional<TableRefusal> install(const MappedCode& code, const std::string& content,
                                      const std::string& encoded) {
    const auto view = read_unwind_table(encoded);
    EXPECT_TRUE(view);
    return tables_.install(code, content, *view);
  }
  void pass(std::uint64_t seconds) { tables_.tick(now_ns_ += seconds * kSecond); }
  [[nodiscard]] static profd_table_key key_of(const MappedCode& code, std::uint32_t region) {
    profd_table_key key{};
    key.file.inode = code.key.inode;
    key.file.size = code.key.size_bytes;
    key.region = region;
    return key;
  }
  // The map entry of a region, or null.
  profd_table* entry(const MappedCode& code, std::uint32_t region) {
    const auto known = state_.tables.find(bytes_of(key_of(code, region)));
    return known == state_.tables.end() ? nullptr : &known->second;
  }
  UnwindStats stats() const {
    UnwindStats stats;
    tables_.add_to(stats);
    return stats;
  }

  std::uint64_t now_ns_ = 1000 * kSecond;
  FakeMapsState state_;
  std::set<ProcessKey> ended_;
  UnwindTables tables_{std::make_unique<FakeTableMaps>(state_), kLimits,
                       [this](const ProcessKey& process) { return ended_.contains(process); }};
};

TEST_F(UnwindTablesTest, TheTableGenerationIsNotZeroFromTheStart) {
  EXPECT_GT(state_.generation, 0U);
}

// Finds a rule in the fake maps as bpf/unwind_rows.h describes it.
profd_rule look_up(const FakeMapsState& state, const profd_table& table, std::uint64_t offset) {
  const auto& words = *state.arenas.at(table.arena);
  const auto within = static_cast<std::uint32_t>(offset % kRegion);
  const std::uint32_t bucket = (within >> PROFD_BUCKET_SHIFT) - table.first_bucket;
  if (bucket >= table.bucket_count) return state.rules[PROFD_RULE_INDEX_UNKNOWN];
  std::uint32_t row = words.at(words.at(table.buckets_at + bucket) - 1);
  for (std::uint32_t at = words.at(table.buckets_at + bucket);
       at < words.at(table.buckets_at + bucket + 1); ++at) {
    if (profd_row_offset(words.at(at)) <= (within & PROFD_ROW_OFFSET_MASK)) row = words.at(at);
  }
  const std::uint32_t code = profd_row_rule(row);
  return (code & PROFD_RULE_IN_DICTIONARY) != 0 ? state.rules.at(code & ~PROFD_RULE_IN_DICTIONARY)
                                                : decode_inline_rule(code);
}

TEST_F(UnwindTablesTest, EntriesHaveTheNumberOfTheInterpreter) {
  MappedCode code = file(1, kRoot, 3);
  code.runtime = 7;
  ASSERT_FALSE(install(code, "content", table_of({{0x1010, rule(8)}})));
  EXPECT_EQ(entry(code, 0)->state, PROFD_TABLE_READY);
  EXPECT_EQ(entry(code, 0)->runtime, 7);
  EXPECT_EQ(entry(code, 1)->state, PROFD_TABLE_NONE);
  EXPECT_EQ(entry(code, 1)->runtime, 7);
  // What is mapped later does not come with the number.
  tables_.cover(file(1, kRoot, 4));
  EXPECT_EQ(entry(code, 2)->runtime, 7);
  MappedCode refused = file(2);
  refused.runtime = 8;
  EXPECT_TRUE(tables_.refuse(refused, TableRefusal::kTooLarge));
  EXPECT_EQ(entry(refused, 0)->runtime, 8);
  MappedCode copy = file(3);
  copy.runtime = 7;
  EXPECT_TRUE(tables_.share(copy, "content"));
  EXPECT_EQ(entry(copy, 0)->runtime, 7);
}

TEST_F(UnwindTablesTest, TheFilesThatAreRemovedAreReported) {
  std::vector<std::uint64_t> removed;
  UnwindTables tables(
      std::make_unique<FakeTableMaps>(state_), kLimits, [](const ProcessKey&) { return false; },
      [&removed](const FileKey& key) { removed.push_back(key.inode); });
  tables.tick(now_ns_);
  const std::string encoded = table_of({{0x1010, rule(8)}});
  const auto view = read_unwind_table(encoded);
  ASSERT_TRUE(view);
  ASSERT_FALSE(tables.install(file(1, kUser), "content", *view));
  ASSERT_TRUE(tables.share(file(2, kUser), "content"));
  EXPECT_TRUE(tables.refuse(file(3), TableRefusal::kTooLarge));
  EXPECT_TRUE(removed.empty());
  tables.forget({.inode = 3, .size_bytes = kRegion * 8});
  EXPECT_EQ(removed, (std::vector<std::uint64_t>{3}));
  // What is not sampled is forgotten, with all files of the table.
  for (std::uint64_t seconds = 0; seconds < 300 && removed.size() < 3; seconds += 10) {
    tables.tick(now_ns_ += 10 * kSecond);
  }
  EXPECT_EQ(removed, (std::vector<std::uint64_t>{3, 1, 2}));
}

TEST_F(UnwindTablesTest, RowsAreFoundAtTheirFileOffsets) {
  const std::vector<std::pair<std::uint64_t, profd_rule>> rows = {{0x1010, rule(8)},
                                                                  {0x1013, rule(123457)},
                                                                  {0x1800, rule(16)},
                                                                  {0x5000, rule(7)},
                                                                  {0x5001, profd_rule{}},
                                                                  {kRegion + 0x20, rule(123457)},
                                                                  {kRegion + 0x30, profd_rule{}}};
  const MappedCode code = file(1, kRoot, 3);
  // Other tables before it, so that its rules and words are not the first.
  ASSERT_FALSE(install(file(9), "other", table_of({{0, rule(99)}, {8, rule(101)}})));
  ASSERT_FALSE(install(code, "content", table_of(rows)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t last =
        i + 1 < rows.size() && rows[i + 1].first / kRegion == rows[i].first / kRegion
            ? rows[i + 1].first - 1
            : rows[i].first;
    for (const std::uint64_t offset : {rows[i].first, last}) {
      const auto* region = entry(code, static_cast<std::uint32_t>(offset / kRegion));
      ASSERT_NE(region, nullptr);
      EXPECT_EQ(region->state, PROFD_TABLE_READY);
      for (const profd_rule& found :
           {look_up(state_, *region, offset), tables_.find_rule(code.key, offset)}) {
        EXPECT_EQ(found.kind, rows[i].second.kind) << offset;
        EXPECT_EQ(found.cfa_offset, rows[i].second.cfa_offset) << offset;
      }
    }
  }
  EXPECT_EQ(tables_.find_rule(code.key, 0).kind, PROFD_RULE_UNKNOWN);
  EXPECT_EQ(tables_.find_rule(code.key, kRegion - 1).kind, PROFD_RULE_UNKNOWN);
  EXPECT_EQ(tables_.find_rule(code.key, 7 * kRegion).kind, PROFD_RULE_UNKNOWN);
}

TEST_F(UnwindTablesTest, EveryMappedFileRegionHasAnEntry) {
  const MappedCode code = file(1, kRoot, 0b101);
  ASSERT_FALSE(install(code, "content", table_of(10)));
  ASSERT_NE(entry(code, 2), nullptr);
  EXPECT_EQ(entry(code, 2)->state, PROFD_TABLE_NONE);
  EXPECT_EQ(entry(code, 1), nullptr);
  tables_.cover({.key = code.key, .regions = 0b010});
  ASSERT_NE(entry(code, 1), nullptr);
  EXPECT_EQ(entry(code, 1)->state, PROFD_TABLE_NONE);
}

TEST_F(UnwindTablesTest, ARefusedFileHasEntriesWithoutRows) {
  const MappedCode code = file(1, kUser, 0b11);
  tables_.refuse(code, TableRefusal::kMalformed);
  EXPECT_EQ(tables_.state(code.key), UnwindTables::State::kNone);
  ASSERT_NE(entry(code, 1), nullptr);
  EXPECT_EQ(entry(code, 1)->state, PROFD_TABLE_NONE);
  EXPECT_EQ(stats().refused[static_cast<std::size_t>(TableRefusal::kMalformed)], 1U);
  ASSERT_TRUE(tables_.refusal_of(code.key));
  EXPECT_EQ(tables_.refusal_of(code.key)->reason, TableRefusal::kMalformed);
  tables_.forget(code.key);
  EXPECT_FALSE(tables_.refusal_of(code.key));
  EXPECT_EQ(tables_.state(code.key), UnwindTables::State::kUnknown);
  EXPECT_TRUE(state_.tables.empty());
}

TEST_F(UnwindTablesTest, FilesOfEqualContentShareATable) {
  ASSERT_FALSE(install(file(1), "content", table_of(100)));
  const std::uint64_t bytes = stats().bytes;
  EXPECT_FALSE(tables_.share(file(2), "another"));
  ASSERT_TRUE(tables_.share(file(2), "content"));
  ASSERT_FALSE(install(file(3), "content", table_of(100)));
  EXPECT_EQ(stats().bytes, bytes);
  EXPECT_EQ(stats().tables, 1U);
  EXPECT_EQ(stats().files, 3U);
  EXPECT_EQ(entry(file(1), 0)->buckets_at, entry(file(3), 0)->buckets_at);
  EXPECT_EQ(entry(file(1), 0)->number, entry(file(3), 0)->number);
}

TEST_F(UnwindTablesTest, DifferentTablesHaveDifferentNumbers) {
  ASSERT_FALSE(install(file(1), "a", table_of(100)));
  ASSERT_FALSE(install(file(2), "b", table_of(100)));
  EXPECT_NE(entry(file(1), 0)->number, entry(file(2), 0)->number);
  EXPECT_NE(entry(file(1), 0)->number, 0U);
}

// Four arenas of which each takes one table of 900 rows.
TEST_F(UnwindTablesTest, TheLeastRecentlySampledTableIsEvictedFirst) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
    pass(1);
  }
  pass(60);
  entry(file(1), 0)->used_ns = now_ns_ - 30 * kSecond;  // the oldest, but sampled since
  const unsigned generation = state_.generation;
  const std::uint64_t grace_periods = state_.grace_periods;
  ASSERT_FALSE(install(file(5), "5", table_of(900)));
  EXPECT_NE(entry(file(1), 0), nullptr);
  EXPECT_EQ(entry(file(2), 0), nullptr);
  EXPECT_NE(entry(file(3), 0), nullptr);
  EXPECT_EQ(tables_.state(file(2).key), UnwindTables::State::kUnknown);
  EXPECT_GT(state_.generation, generation);
  EXPECT_GT(state_.grace_periods, grace_periods);  // before its words were reused
  EXPECT_EQ(stats().evicted, 1U);
}

TEST_F(UnwindTablesTest, TheMemoryOfAnEvictedTableIsUsedAgainAfterAGracePeriod) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
    pass(1);
  }
  pass(60);
  state_.grace_periods_end = false;
  EXPECT_EQ(install(file(5), "5", table_of(900)), TableRefusal::kOverMemory);
  EXPECT_EQ(install(file(5), "5", table_of(900)), TableRefusal::kOverMemory);
  EXPECT_EQ(stats().evicted, 1U);
  EXPECT_TRUE(tables_.has_room_soon());
  state_.grace_periods_end = true;
  pass(1);
  EXPECT_FALSE(tables_.has_room_soon());
  EXPECT_FALSE(install(file(5), "5", table_of(900)));
  EXPECT_EQ(stats().evicted, 1U);
}

TEST_F(UnwindTablesTest, ATableWaitsUntilItsArenaIsMade) {
  state_.arenas_come = false;
  EXPECT_EQ(install(file(1), "1", table_of(900)), TableRefusal::kOverMemory);
  EXPECT_EQ(install(file(2), "2", table_of(900)), TableRefusal::kOverMemory);
  EXPECT_TRUE(tables_.has_room_soon());
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kUnknown);
  EXPECT_EQ(stats().bytes, 0U);
  EXPECT_EQ(stats().rules, 0U);
  state_.arenas_come = true;
  EXPECT_FALSE(install(file(1), "1", table_of(900)));
  EXPECT_FALSE(tables_.has_room_soon());
}

TEST_F(UnwindTablesTest, AnArenaThatNoTableWaitsForAnyMoreIsMade) {
  state_.arenas_come = false;
  EXPECT_EQ(install(file(1), "1", table_of(900)), TableRefusal::kOverMemory);
  pass(1);
  EXPECT_TRUE(tables_.has_room_soon());
  state_.arenas_come = true;
  pass(1);
  EXPECT_FALSE(tables_.has_room_soon());
}

TEST_F(UnwindTablesTest, ARecentlyUsedTableIsNotEvicted) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
  }
  pass(60);
  for (std::uint64_t i = 1; i <= 4; ++i) entry(file(i), 0)->used_ns = now_ns_ - kSecond;
  EXPECT_EQ(install(file(5), "5", table_of(900)), TableRefusal::kOverMemory);
  pass(60);
  EXPECT_FALSE(install(file(5), "5", table_of(900)));
}

// Of 4,096 words a user's share is 512.
TEST_F(UnwindTablesTest, AUserOverTheShareMakesRoomForOthersAlsoFromTablesInUse) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i, kUser), std::to_string(i), table_of(900)));
  }
  EXPECT_EQ(install(file(5, kUser), "5", table_of(900)), TableRefusal::kOverShare);
  EXPECT_EQ(install(file(6, kUser + 1), "6", table_of(900)), TableRefusal::kOverShare);
  EXPECT_FALSE(install(file(7), "root's", table_of(900)));
  EXPECT_FALSE(install(file(8, kUser + 1), "8", table_of(200)));
  EXPECT_NE(entry(file(7), 0), nullptr);
  EXPECT_NE(entry(file(8), 0), nullptr);
  EXPECT_EQ(stats().evicted, 2U);
}

TEST_F(UnwindTablesTest, AUserOverTheShareEvictsOnlyOwnTables) {
  ASSERT_FALSE(install(file(1), "root's", table_of(900)));
  ASSERT_FALSE(install(file(2, kUser + 1), "a neighbour's", table_of(300)));
  ASSERT_FALSE(install(file(3, kUser), "a", table_of(900)));
  ASSERT_FALSE(install(file(4, kUser), "b", table_of(900)));
  pass(60);
  EXPECT_FALSE(install(file(5, kUser), "c", table_of(900)));
  EXPECT_FALSE(install(file(6, kUser), "d", table_of(900)));
  EXPECT_NE(entry(file(1), 0), nullptr);
  EXPECT_NE(entry(file(2), 0), nullptr);
  EXPECT_EQ(entry(file(3), 0), nullptr);
}

TEST_F(UnwindTablesTest, ATableThatRootUsesTooIsNotEvictedForItsFirstUser) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i, kUser), std::to_string(i), table_of(900)));
  }
  EXPECT_EQ(tables_.payer_of(file(1).key), kUser);
  tables_.cover(file(1));
  EXPECT_EQ(tables_.payer_of(file(1).key), kRoot);
  for (std::uint64_t i = 5; i <= 7; ++i) {
    pass(1);
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
  }
  for (const std::uint64_t kept : {1, 5, 6, 7}) EXPECT_NE(entry(file(kept), 0), nullptr);
  pass(1);
  EXPECT_EQ(install(file(8), "8", table_of(900)), TableRefusal::kOverMemory);
}

// A table with so many dictionary rules, none of them in another table.
std::string table_of_rules(std::int32_t first, std::size_t count) {
  std::vector<std::pair<std::uint64_t, profd_rule>> list;
  for (std::size_t i = 0; i < count; ++i) {
    list.emplace_back(i * 4, rule(first + 2 * static_cast<std::int32_t>(i) + 1));
  }
  return table_of(list);
}

// 400 rules, an eighth of them is the share of one user.
class FewRulesTest : public UnwindTablesTest {
 protected:
  FewRulesTest() : UnwindTablesTest(PROFD_RULE_FIRST_FREE + 400) {}
};

TEST_F(FewRulesTest, AUserOverTheShareOfTheRulesMakesRoomForOthers) {
  for (int i = 1; i <= 4; ++i) {
    const std::string content = std::to_string(i);
    ASSERT_FALSE(install(file(10U + i, kUser), content, table_of_rules(1000 * i, 90)));
  }
  EXPECT_EQ(install(file(2, kUser), "too much", table_of_rules(7000, 90)),
            TableRefusal::kOverShare);
  EXPECT_FALSE(install(file(1), "root's", table_of_rules(8000, 90)));
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kReady);
  EXPECT_EQ(tables_.state(file(2).key), UnwindTables::State::kUnknown);
}

// Four arenas, each with a table that leaves a gap too small for one more, though they add up.
TEST_F(UnwindTablesTest, IfGapsAreTooSmallTablesOfTheUserAreEvictedFirst) {
  ASSERT_FALSE(install(file(1), "root's", table_of(600)));
  ASSERT_FALSE(install(file(2), "root's too", table_of(600)));
  ASSERT_FALSE(install(file(3), "root's third", table_of(600)));
  ASSERT_FALSE(install(file(4, kUser), "user's", table_of(500)));
  pass(60);
  ASSERT_FALSE(install(file(5, kUser), "another", table_of(504)));
  for (std::uint64_t inode = 1; inode <= 3; ++inode) EXPECT_NE(entry(file(inode), 0), nullptr);
}

TEST_F(UnwindTablesTest, TheNumberOfEntriesIsLimited) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    tables_.refuse(file(100 + i, kUser), TableRefusal::kVanished);
  }
  EXPECT_LE(state_.tables.size(), 64U);
  ASSERT_FALSE(install(file(1), "root's", table_of(10)));
  EXPECT_NE(entry(file(1), 0), nullptr);
}

// Reading every entry for each of thousands of files would block the io thread.
TEST_F(UnwindTablesTest, AFailedEvictionIsNotRepeatedAtOnce) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    tables_.refuse(file(100 + i, kUser), TableRefusal::kVanished);
  }
  const unsigned looked = state_.reads;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    tables_.refuse(file(1000 + i, kUser), TableRefusal::kVanished);
  }
  EXPECT_EQ(state_.reads, looked);
  pass(60);
  tables_.refuse(file(5000, kUser), TableRefusal::kVanished);
  EXPECT_NE(entry(file(5000), 0), nullptr);
}

TEST_F(UnwindTablesTest, ARefusedFileThatIsNotUsedForMinutesIsForgotten) {
  ASSERT_FALSE(install(file(1), "root's", table_of(10)));
  MappedCode pinned = file(2, kUser);
  pinned.pinned = true;
  tables_.refuse(pinned, TableRefusal::kVanished);
  for (std::uint64_t inode = 3; inode <= 5; ++inode) {
    tables_.refuse(file(inode, kUser), TableRefusal::kVanished);
  }
  pass(60);
  entry(file(3), 0)->used_ns = now_ns_;
  pass(UnwindTables::kUnused / std::chrono::seconds(1) - 1);
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kReady);
  EXPECT_EQ(tables_.state(file(2).key), UnwindTables::State::kNone);
  EXPECT_EQ(tables_.state(file(3).key), UnwindTables::State::kNone);
  EXPECT_EQ(tables_.state(file(4).key), UnwindTables::State::kUnknown);
  EXPECT_EQ(entry(file(5), 0), nullptr);
  pass(2);
  EXPECT_EQ(tables_.state(file(3).key), UnwindTables::State::kUnknown);
}

// It is in the cache on disk.
TEST_F(UnwindTablesTest, ATableOfAUserThatIsNotUsedForMinutesIsForgottenAfterAGracePeriod) {
  ASSERT_FALSE(install(file(1), "root's", table_of(900)));
  ASSERT_FALSE(install(file(2, kUser), "a user's", table_of(900)));
  ASSERT_FALSE(install(file(3, kUser), "in use", table_of(900)));
  state_.grace_periods_end = false;
  const std::uint64_t bytes = stats().bytes;
  pass(119);
  entry(file(3), 0)->used_ns = now_ns_;
  pass(1);
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kReady);
  EXPECT_EQ(tables_.state(file(2).key), UnwindTables::State::kUnknown);
  EXPECT_EQ(tables_.state(file(3).key), UnwindTables::State::kReady);
  EXPECT_EQ(stats().bytes, bytes);
  state_.grace_periods_end = true;
  pass(0);
  EXPECT_EQ(stats().bytes, bytes / 3 * 2);
}

TEST_F(UnwindTablesTest, TheTableOfJitCodeIsKeptWhileItsProcessRuns) {
  const ProcessKey ends{.tgid = 7, .start_ns = 1};
  const ProcessKey runs{.tgid = 8, .start_ns = 1};
  MappedCode code = file(1);
  code.process = ends;
  ASSERT_FALSE(install(code, "jit-7", table_of(10)));
  code = file(2, kUser);
  code.process = runs;
  ASSERT_FALSE(install(code, "jit-8", table_of(10)));
  pass(200);
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kReady);
  ended_.insert(ends);
  pass(200);
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kUnknown);
  EXPECT_EQ(tables_.state(file(2).key), UnwindTables::State::kReady);
}

// Each takes a system call.
TEST_F(UnwindTablesTest, TimesOfUseAreReadOnlyWhereATableMayBeUnused) {
  for (std::uint64_t inode = 1; inode <= 10; ++inode) {
    const std::uint32_t payer = inode <= 5 ? kRoot : kUser;
    ASSERT_FALSE(install(file(inode, payer), std::to_string(inode), table_of(10)));
  }
  pass(1);
  const unsigned reads = state_.reads;
  for (int i = 0; i < 100; ++i) pass(1);
  EXPECT_EQ(state_.reads, reads);
}

TEST_F(UnwindTablesTest, TheMemoryOfEmptyArenasIsGivenBack) {
  const std::string table = table_of(900);
  ASSERT_FALSE(install(file(1), "root's", table));
  for (std::uint64_t inode = 2; inode <= 4; ++inode) {
    ASSERT_FALSE(install(file(inode, kUser), std::to_string(inode), table));
  }
  ASSERT_EQ(stats().arena_bytes, 4 * kArenaWords * 4);
  for (int i = 0; i < 180; ++i) {
    if (state_.tables.contains(bytes_of(key_of(file(3), 0)))) entry(file(3), 0)->used_ns = now_ns_;
    pass(1);
  }
  EXPECT_EQ(stats().arena_bytes, 2 * kArenaWords * 4) << "the first one, and the one in use";
  EXPECT_EQ(state_.arenas[1], nullptr);
  EXPECT_EQ(state_.arenas[3], nullptr);
  EXPECT_EQ(tables_.find_rule(file(3).key, 4).cfa_offset, 16) << "in the third arena";

  ASSERT_FALSE(install(file(5), "later", table));
  EXPECT_EQ(stats().arena_bytes, 3 * kArenaWords * 4);
  EXPECT_EQ(look_up(state_, *entry(file(5), 0), 4).cfa_offset, 16);
}

// Counts what pools take while it is the default memory.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  CountedMemory() : former_(std::pmr::set_default_resource(this)) {}
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;
  ~CountedMemory() override { std::pmr::set_default_resource(former_); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    bytes_ += bytes;
    return former_->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    bytes_ -= bytes;
    former_->deallocate(memory, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::memory_resource* former_;
  std::size_t bytes_ = 0;
};

TEST_F(UnwindTablesTest, WhatIsLeftAfterAFloodOfFilesIsFoundInItsNewMemory) {
  const CountedMemory memory;
  UnwindTables tables(std::make_unique<FakeTableMaps>(state_), kLimits);
  const auto pass_second = [&] { tables.tick(now_ns_ += kSecond); };
  pass_second();
  const std::string encoded = table_of(10);
  const auto view = read_unwind_table(encoded);
  ASSERT_TRUE(view);
  ASSERT_FALSE(tables.install(file(1), "root's", *view));
  ASSERT_FALSE(tables.install(file(2), "root's", *view));  // shares it
  for (std::uint64_t i = 0; i < 2000; ++i) {
    MappedCode none = file(100 + i, kUser);
    none.regions.reset();
    tables.refuse(none, TableRefusal::kVanished);
  }
  pass_second();
  const std::size_t most = memory.bytes();
  for (int i = 0; i < 200; ++i) pass_second();
  ASSERT_EQ(tables.state(file(100).key), UnwindTables::State::kUnknown);
  EXPECT_LT(memory.bytes(), most / 10);
  for (std::uint64_t inode = 1; inode <= 2; ++inode) {
    EXPECT_EQ(tables.find_rule(file(inode).key, 4).cfa_offset, 16);
  }
  EXPECT_TRUE(tables.share(file(3), "root's"));
  UnwindStats stats;
  tables.add_to(stats);
  EXPECT_EQ(stats.files, 3U);
}

// The io thread has other things to do.
TEST_F(UnwindTablesTest, OnlySomeRefusedFilesAreCheckedAtOnce) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    MappedCode none = file(100 + i, kUser);
    none.regions.reset();
    tables_.refuse(none, TableRefusal::kVanished);
  }
  const auto known = [this] {
    std::size_t count = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      count += tables_.state(file(100 + i).key) == UnwindTables::State::kNone ? 1 : 0;
    }
    return count;
  };
  pass(300);
  EXPECT_EQ(known(), 1000 - 128);
  pass(0);
  EXPECT_EQ(known(), 1000 - 128);
  for (int i = 0; i < 1000 / 128; ++i) pass(1);
  EXPECT_EQ(known(), 0);
}

// A file of a terabyte has an entry for each of its regions.
TEST_F(UnwindTablesTest, OnlySomeEntriesAreCheckedAtOnce) {
  UnwindTablesLimits limits = kLimits;
  limits.max_entries = 8192;
  UnwindTables tables(std::make_unique<FakeTableMaps>(state_), limits);
  tables.tick(now_ns_);
  for (std::uint64_t i = 0; i < 8; ++i) {
    MappedCode large = file(100 + i, kUser);
    large.regions.set();
    tables.refuse(large, TableRefusal::kMalformed);
  }
  const auto known = [&] {
    std::size_t count = 0;
    for (std::uint64_t i = 0; i < 8; ++i) {
      count += tables.state(file(100 + i).key) == UnwindTables::State::kNone ? 1 : 0;
    }
    return count;
  };
  ASSERT_EQ(known(), 8);
  for (std::size_t left = 8; left-- > 0;) {
    tables.tick(now_ns_ += 300 * kSecond);
    EXPECT_EQ(known(), left);
  }
}

TEST_F(UnwindTablesTest, TheNumberOfKnownFilesIsLimited) {
  for (std::uint64_t i = 0; i < UnwindTables::kMaxFiles + 100; ++i) {
    MappedCode none = file(100 + i, kUser);
    none.regions.reset();
    tables_.refuse(none, TableRefusal::kVanished);
  }
  EXPECT_EQ(tables_.state(file(100 + UnwindTables::kMaxFiles).key), UnwindTables::State::kUnknown);
  pass(60);
  ASSERT_FALSE(install(file(1), "root's", table_of(10)));
  EXPECT_EQ(tables_.state(file(1).key), UnwindTables::State::kReady);
}

TEST_F(UnwindTablesTest, APinnedTableIsNeverEvicted) {
  MappedCode vdso = file(1);
  vdso.pinned = true;
  ASSERT_FALSE(install(vdso, "vdso", table_of(900)));
  for (std::uint64_t i = 2; i <= 10; ++i) {
    pass(60);
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
  }
  EXPECT_NE(entry(vdso, 0), nullptr);
}

TEST_F(UnwindTablesTest, ATableLargerThanAnArenaIsRefused) {
  EXPECT_EQ(install(file(1), "large", table_of(1100)), TableRefusal::kTooLarge);
}

TEST_F(UnwindTablesTest, WithoutMemoryForAnArenaNothingChanges) {
  state_.out_of_memory = true;
  EXPECT_EQ(install(file(1), "content", table_of(100)), TableRefusal::kOverMemory);
  EXPECT_FALSE(tables_.has_room_soon());
  EXPECT_EQ(stats().bytes, 0U);
  EXPECT_EQ(stats().rules, 0U);
  EXPECT_TRUE(state_.tables.empty());
  state_.out_of_memory = false;
  EXPECT_FALSE(install(file(1), "content", table_of(100)));
}

// As the table of JIT code does again and again.
class ReplacedTableTest : public UnwindTablesTest {
 protected:
  std::optional<TableRefusal> replace(std::size_t rows, std::uint32_t payer = kUser) {
    const std::string encoded = table_of(rows);
    const auto view = read_unwind_table(encoded);
    EXPECT_TRUE(view);
    return tables_.replace(file(1, payer), "jit", *view);
  }
  [[nodiscard]] bool is_ready() const {
    return tables_.state(file(1).key) == UnwindTables::State::kReady;
  }
};

TEST_F(ReplacedTableTest, IsFreeAfterAGracePeriod) {
  ASSERT_FALSE(replace(300));
  const std::uint64_t bytes = stats().bytes;
  const std::uint32_t number = entry(file(1), 0)->number;
  state_.grace_periods_end = false;
  ASSERT_FALSE(replace(300));
  EXPECT_NE(entry(file(1), 0)->number, number);
  EXPECT_EQ(stats().bytes, 2 * bytes);
  EXPECT_EQ(stats().tables, 1U);
  state_.grace_periods_end = true;
  pass(1);
  EXPECT_EQ(stats().bytes, bytes);
}

TEST_F(ReplacedTableTest, StaysWhileMemoryForTheNewOneIsMade) {
  ASSERT_FALSE(replace(600));
  const std::uint32_t number = entry(file(1), 0)->number;
  state_.arenas_come = false;
  EXPECT_EQ(replace(610), TableRefusal::kOverMemory);
  EXPECT_TRUE(tables_.has_room_soon());
  EXPECT_EQ(entry(file(1), 0)->number, number);
  EXPECT_EQ(tables_.find_rule(file(1).key, 4).cfa_offset, 16);
  state_.arenas_come = true;
  pass(1);
  ASSERT_FALSE(replace(610));
  EXPECT_NE(entry(file(1), 0)->number, number);
}

// Four arenas, of which others have three.
TEST_F(ReplacedTableTest, MakesRoomForTheNewOneWhereThereIsNoneForBoth) {
  for (std::uint64_t i = 2; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
  }
  ASSERT_FALSE(replace(900));
  state_.grace_periods_end = false;
  EXPECT_TRUE(replace(905));
  EXPECT_FALSE(is_ready());
  EXPECT_TRUE(tables_.has_room_soon());
  state_.grace_periods_end = true;
  pass(1);
  EXPECT_FALSE(replace(905));
  EXPECT_TRUE(is_ready());
  EXPECT_EQ(stats().tables, 4U);
}

TEST_F(ReplacedTableTest, MayBeEvictedToMakeRoomForTheNewOne) {
  ASSERT_FALSE(replace(900, kRoot));
  pass(1);
  for (std::uint64_t i = 2; i <= 4; ++i) {
    ASSERT_FALSE(install(file(i), std::to_string(i), table_of(900)));
  }
  pass(UnwindTables::kHot / std::chrono::seconds(1) - 1);
  ASSERT_FALSE(replace(900, kRoot));
  EXPECT_TRUE(is_ready());
  for (std::uint64_t i = 2; i <= 4; ++i) EXPECT_NE(entry(file(i), 0), nullptr);
}

TEST_F(UnwindTablesTest, TimesOfUseAreRefreshedEveryTenSeconds) {
  unsigned raised = 0;
  for (int i = 0; i < 100; ++i) {
    const unsigned before = state_.generation;
    pass(1);
    raised += state_.generation - before;
  }
  EXPECT_EQ(raised, 10U);
}

TEST(FileRegionsTest, AMappingCoversTheFileRegionsOfItsBytes) {
  EXPECT_EQ(regions_of(0, 1, 100), 1U);
  EXPECT_EQ(regions_of(kRegion - 1, 2, 8 * kRegion), 0b11U);
  EXPECT_EQ(regions_of(kRegion, kRegion, 8 * kRegion), 0b10U);
  EXPECT_EQ(regions_of(0, UINT64_MAX, 3 * kRegion), 0b111U);
  EXPECT_EQ(regions_of(UINT64_MAX - 10, 100, 3 * kRegion), 0U);
  EXPECT_TRUE(regions_of(kRegion * 1000, kRegion, UINT64_MAX).none());
}

}  // namespace
}  // namespace profd::test
