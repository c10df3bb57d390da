// The unwind rows of a code map: how many areas of addresses they may lie in.

#include "collectors/jit/code_rows.h"

#include <gtest/gtest.h>

#include "tests/collectors/jit/hostile_dump.h"
#include "tests/collectors/jit/scattered_rows.h"

namespace profd::test {
namespace {

using JitRowsOfADump = HostileDump;

constexpr std::uint64_t kAreaBytes = std::uint64_t{1} << 32;

JitUnwindRows function_in(std::uint64_t area, std::uint64_t offset = 0x1000) {
  profd_rule rule{};
  rule.kind = PROFD_RULE_REGISTER;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.cfa_offset = 8;
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
  EXPECT_EQ(rows.tables().size(), JitCodeRows::kMaxAreas);
  EXPECT_FALSE(rows.tables().contains(100));
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

TEST_F(JitRowsOfADump, FunctionsInTooManyAreasAreCounted) {
  constexpr std::size_t kAreas = 1800;
  write(dump_of_scattered_rows(pid(), kAreas));
  ASSERT_TRUE(is_named("last"));  // the record after the rows, which take several turns
  EXPECT_EQ(processes_->stats().malformed.at("scattered_rows"), kAreas - JitCodeRows::kMaxAreas);
}

}  // namespace
}  // namespace profd::test
