// The unwind rows of code maps: how many areas of addresses they may lie in, and the tables that
// are made of them while they change.

#include "collectors/jit/code_rows.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/collectors/jit/hostile_dump.h"
#include "tests/collectors/jit/scattered_rows.h"
#include "tests/formats/unwind/find_rule.h"

namespace profd::test {
namespace {

using JitRowsOfADump = HostileDump;

using testing::ElementsAre;
using testing::Not;
using testing::SizeIs;

constexpr std::uint64_t kAreaBytes = std::uint64_t{1} << 32;

JitUnwindRows function_in(std::uint64_t area, std::uint64_t offset = 0x1000,
                          std::int32_t cfa_offset = 8) {
  profd_rule rule{};
  rule.kind = PROFD_RULE_REGISTER;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.cfa_offset = cfa_offset;
  const std::uint64_t start = area * kAreaBytes + offset;
  return {.start = start, .end = start + 32, .rows = {{.offset = start, .rule = rule}}};
}

TEST(JitCodeRowsTest, AFunctionInOneAreaTooManyHasNoRows) {
  JitCodeRows rows;
  for (std::uint64_t area = 1; area <= JitCodeRows::kMaxAreas; ++area) {
    EXPECT_TRUE(rows.set(function_in(area)));
  }
  EXPECT_FALSE(rows.set(function_in(100)));
  EXPECT_TRUE(rows.set(function_in(3, 0x2000)));  // in an area that has rows
  EXPECT_THAT(rows.areas(), SizeIs(JitCodeRows::kMaxAreas));
  EXPECT_THAT(rows.areas(), Not(testing::Contains(100)));
}

TEST(JitCodeRowsTest, AnAreaWhoseLastFunctionIsErasedMakesRoomForAnother) {
  JitCodeRows rows;
  for (std::uint64_t area = 1; area <= JitCodeRows::kMaxAreas; ++area) {
    ASSERT_TRUE(rows.set(function_in(area)));
  }
  ASSERT_TRUE(rows.set(function_in(3, 0x2000)));
  rows.erase(3 * kAreaBytes + 0x1000, 3 * kAreaBytes + 0x1020);
  EXPECT_FALSE(rows.set(function_in(100)));  // the other function is still there
  rows.erase(3 * kAreaBytes + 0x2000, 3 * kAreaBytes + 0x2020);
  EXPECT_TRUE(rows.set(function_in(100)));
  EXPECT_FALSE(rows.set(function_in(101)));
}

// The CFA offset of the rule at an offset in area 1; 0: there is none.
std::int32_t cfa_offset_at(const Result<std::string>& encoded, std::uint64_t offset) {
  EXPECT_TRUE(encoded);
  const auto table = read_unwind_table(*encoded);
  EXPECT_TRUE(table);
  return find_rule(*table, offset).cfa_offset;
}

JitCodeRows rows_of(std::size_t functions) {
  JitCodeRows rows;
  for (std::size_t i = 0; i < functions; ++i) rows.set(function_in(1, 64 * i));
  return rows;
}

TEST(JitCodeRowsTest, SharedRowsHaveTheTableOfTheirTimeWhileOthersChange) {
  constexpr std::size_t kFunctions = 20'000;
  JitCodeRows rows = rows_of(kFunctions);
  const std::uint64_t changes = rows.changes();
  JitRowsOfProcess shared;
  shared.add_layer(rows.share());
  EXPECT_EQ(rows.changes(), changes);
  Result<std::string> made = std::string();
  std::thread maker([&] { made = shared.encode(1); });
  for (std::size_t i = 0; i < kFunctions; i += 3) rows.set(function_in(1, 64 * i, 16));
  rows.erase(kAreaBytes, kAreaBytes + 6400);
  maker.join();
  EXPECT_GT(rows.changes(), changes);
  EXPECT_EQ(made.value(), rows_of(kFunctions).encode(1).value());
  const auto next = rows.encode(1);
  EXPECT_EQ(cfa_offset_at(next, 0), 0);
  EXPECT_EQ(cfa_offset_at(next, 64 * 102), 16);
  EXPECT_EQ(cfa_offset_at(next, 64 * 103), 8);
}

TEST(JitCodeRowsTest, ATableOfLayersHasTheFunctionsOfTheFirstOfThem) {
  JitCodeRows first;
  JitCodeRows second;
  first.set(function_in(1, 0x1010, 16));
  second.set(function_in(1, 0x1000, 24));  // overlaps the other in part
  second.set(function_in(1, 0x1030, 32));
  second.set(function_in(2, 0x1000));
  JitRowsOfProcess layers;
  layers.add_layer(first.share());
  layers.add_layer(second.share());
  EXPECT_THAT(layers.areas(), ElementsAre(1, 2));
  const auto table = layers.encode(1);
  EXPECT_EQ(cfa_offset_at(table, 0x1008), 0);
  EXPECT_EQ(cfa_offset_at(table, 0x1010), 16);
  EXPECT_EQ(cfa_offset_at(table, 0x102f), 16);
  EXPECT_EQ(cfa_offset_at(table, 0x1030), 32);
  EXPECT_EQ(cfa_offset_at(table, 0x1050), 0);
}

TEST(JitCodeRowsTest, LayersTogetherHaveNoMoreAreasThanOne) {
  JitRowsOfProcess layers;
  for (std::uint64_t layer = 0; layer < 3; ++layer) {
    JitCodeRows rows;
    for (std::uint64_t i = 0; i < 10; ++i) rows.set(function_in(1 + 10 * layer + i));
    layers.add_layer(rows.share());
  }
  EXPECT_THAT(layers.areas(), SizeIs(JitCodeRows::kMaxAreas));
}

TEST(JitCodeRowsTest, AnAreaWithoutFunctionsHasATableWithoutRows) {
  const auto encoded = JitRowsOfProcess().encode(7);
  ASSERT_TRUE(encoded);
  const auto table = read_unwind_table(*encoded);
  ASSERT_TRUE(table);
  EXPECT_THAT(table->regions, SizeIs(0));
}

TEST(JitCodeRowsTest, ManyFunctionsThatAreErasedAreDestroyedInParts) {
  constexpr std::size_t kFunctions = 3 * JitForgottenRows::kSome + 10;
  const auto forgotten = std::make_shared<JitForgottenRows>();
  JitCodeRows rows(forgotten);
  for (std::size_t i = 0; i < kFunctions; ++i) rows.set(function_in(1, 64 * i));
  EXPECT_TRUE(forgotten->destroy_some()) << "functions that were replaced by others";
  rows.erase(0, kAreaBytes + 640);  // some
  EXPECT_TRUE(forgotten->destroy_some());
  rows.erase(0, 2 * kAreaBytes);
  EXPECT_EQ(rows.memory_bytes(), 0U);
  EXPECT_THAT(rows.areas(), SizeIs(0));
  std::size_t turns = 1;
  while (!forgotten->destroy_some()) ++turns;
  EXPECT_EQ(turns, 3U);
}

TEST_F(JitRowsOfADump, FunctionsInTooManyAreasAreCounted) {
  constexpr std::size_t kAreas = 1800;
  write(dump_of_scattered_rows(pid(), kAreas));
  ASSERT_TRUE(is_named("last"));  // the record after the rows, which take several turns
  EXPECT_EQ(processes_->stats().malformed.at("scattered_rows"), kAreas - JitCodeRows::kMaxAreas);
}

}  // namespace
}  // namespace profd::test
