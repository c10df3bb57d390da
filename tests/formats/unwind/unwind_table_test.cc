#include "formats/unwind/unwind_table.h"

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/unwind/find_rule.h"

namespace profd {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << PROFD_FILE_REGION_SHIFT;

profd_rule rsp_plus(std::int32_t offset) {
  profd_rule rule{};
  rule.kind = PROFD_RULE_REGISTER;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.cfa_offset = offset;
  rule.ra_saved = PROFD_SAVED_AT_CFA;
  rule.ra_offset = -8;
  return rule;
}

profd_rule deref_rule(std::int32_t offset) {
  profd_rule rule = rsp_plus(offset);
  rule.kind = PROFD_RULE_DEREF;
  return rule;
}

const profd_rule kUnknown{};

bool same(const profd_rule& a, const profd_rule& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// A table that is read back; keeps its bytes.
struct Table {
  std::string bytes;
  UnwindTableView view;
};

Table encoded(UnwindTableWriter& writer) {
  Table table;
  auto bytes = writer.encode();
  EXPECT_TRUE(bytes);
  table.bytes = std::move(*bytes);
  auto view = read_unwind_table(table.bytes);
  EXPECT_TRUE(view) << view.error().message;
  if (view) table.view = std::move(*view);
  return table;
}

Table table_of(const std::map<std::uint64_t, profd_rule>& rows) {
  UnwindTableWriter writer;
  for (const auto& [offset, rule] : rows) writer.add({offset, rule});
  return encoded(writer);
}

void expect_rules(const Table& table, const std::map<std::uint64_t, profd_rule>& expected) {
  for (const auto& [offset, rule] : expected) {
    EXPECT_TRUE(same(find_rule(table.view, offset), rule)) << std::hex << offset;
  }
}

TEST(UnwindTable, FindsTheRowThatCoversAnAddress) {
  const Table table = table_of(
      {{0x1000, rsp_plus(8)}, {0x1001, rsp_plus(16)}, {0x1400, rsp_plus(24)}, {0x5000, kUnknown}});
  expect_rules(table, {{0xfff, kUnknown},
                       {0x1000, rsp_plus(8)},
                       {0x1001, rsp_plus(16)},
                       {0x13ff, rsp_plus(16)},
                       {0x1400, rsp_plus(24)},
                       {0x2fff, rsp_plus(24)},
                       {0x4fff, rsp_plus(24)},
                       {0x5000, kUnknown},
                       {0x5400, kUnknown},
                       {~std::uint64_t{0}, kUnknown}});
}

TEST(UnwindTable, CarriesARuleThroughAllFileRegionsThatItReachesInto) {
  const Table table = table_of({{kRegionBytes - 4, rsp_plus(8)}, {3 * kRegionBytes + 1, kUnknown}});
  EXPECT_EQ(table.view.regions.size(), 4U);
  expect_rules(table, {{kRegionBytes - 5, kUnknown},
                       {kRegionBytes - 1, rsp_plus(8)},
                       {kRegionBytes, rsp_plus(8)},
                       {3 * kRegionBytes - 1, rsp_plus(8)},
                       {3 * kRegionBytes, rsp_plus(8)},
                       {3 * kRegionBytes + 1, kUnknown}});
}

TEST(UnwindTable, LeavesOutFileRegionsWithoutCode) {
  const Table table = table_of({{8, rsp_plus(8)},
                                {16, kUnknown},
                                {9 * kRegionBytes + 2048, rsp_plus(16)},
                                {9 * kRegionBytes + 2056, kUnknown}});
  ASSERT_EQ(table.view.regions.size(), 2U);
  EXPECT_EQ(table.view.regions[1].header.region, 9U);
  EXPECT_EQ(table.view.regions[1].header.first_bucket, 2U);
  EXPECT_EQ(table.view.regions[1].header.bucket_count, 1U);
  expect_rules(table, {{15, rsp_plus(8)}, {16, kUnknown}, {9 * kRegionBytes + 2050, rsp_plus(16)}});
}

TEST(UnwindTable, MergesNeighboursAndDropsRowsWithoutLength) {
  UnwindTableWriter writer;
  writer.add({0x100, rsp_plus(8)});
  writer.add({0x110, rsp_plus(8)});
  writer.add({0x120, rsp_plus(16)});
  writer.add({0x120, rsp_plus(8)});
  writer.add({0x130, kUnknown});
  const Table table = encoded(writer);
  EXPECT_EQ(table.view.header.row_count, 3U) << "the sentinel, one rule, the end";
  expect_rules(table, {{0x12f, rsp_plus(8)}, {0x130, kUnknown}});
}

TEST(UnwindTable, RefusesDecreasingOffsets) {
  UnwindTableWriter writer;
  writer.add({0x200, rsp_plus(8)});
  writer.add({0x100, rsp_plus(16)});
  writer.add({0x300, kUnknown});
  const Table table = encoded(writer);
  EXPECT_EQ(table.view.header.lost[static_cast<std::size_t>(CfiLoss::kOutsideCode)], 1U);
  expect_rules(table, {{0x100, kUnknown}, {0x200, rsp_plus(8)}});
}

TEST(UnwindTable, EncodesEveryRuleInlineThatFits) {
  for (const std::uint8_t number : {PROFD_DWARF_RSP, PROFD_DWARF_RBP}) {
    for (std::int32_t words = 0; words < 1024; words += 31) {
      for (std::int32_t slot = 0; slot < 32; ++slot) {
        profd_rule rule = rsp_plus(8 * words);
        rule.cfa_register = number;
        rule.rbp_saved = slot == 0 ? PROFD_SAVED_NOT : PROFD_SAVED_AT_CFA;
        rule.rbp_offset = -8 * slot;
        rule.rbx_saved = slot == 31 ? PROFD_SAVED_NOT : PROFD_SAVED_AT_CFA;
        rule.rbx_offset = slot == 31 ? 0 : -8 * (slot + 1);
        const auto code = encode_inline_rule(rule);
        ASSERT_TRUE(code);
        EXPECT_LT(*code, PROFD_RULE_IN_DICTIONARY);
        EXPECT_TRUE(same(decode_inline_rule(*code), rule));
      }
    }
  }
}

TEST(UnwindTable, StoresOtherRulesInTheDictionaryOnce) {
  struct Case {
    const char* what;
    std::function<void(profd_rule&)> change;
  };
  std::map<std::uint64_t, profd_rule> rows;
  std::uint64_t offset = 0x1000;
  for (const Case& c : {
           Case{"another register", [](auto& r) { r.cfa_register = 10; }},
           {"odd offset", [](auto& r) { r.cfa_offset = 12; }},
           {"offset of 32 bits", [](auto& r) { r.cfa_offset = 0x7ffffff8; }},
           {"offset just too large", [](auto& r) { r.cfa_offset = 8192; }},
           {"negative offset", [](auto& r) { r.cfa_offset = -8; }},
           {"return address in a register",
            [](auto& r) { r.ra_saved = PROFD_SAVED_REGISTER, r.ra_offset = 2; }},
           {"return address elsewhere", [](auto& r) { r.ra_offset = -16; }},
           {"rbp above the CFA",
            [](auto& r) { r.rbp_saved = PROFD_SAVED_AT_CFA, r.rbp_offset = 8; }},
           {"rbp far below",
            [](auto& r) { r.rbp_saved = PROFD_SAVED_AT_CFA, r.rbp_offset = -256; }},
           {"rbx lost", [](auto& r) { r.rbx_saved = PROFD_SAVED_LOST; }},
           {"a PLT", [](auto& r) { r.kind = PROFD_RULE_PLT, r.cfa_add = 11; }},
           {"a dereference", [](auto& r) { r.kind = PROFD_RULE_DEREF, r.cfa_index = 10; }},
           {"a signal frame", [](auto& r) { r.kind = PROFD_RULE_SIGNAL; }},
       }) {
    profd_rule rule = rsp_plus(16);
    c.change(rule);
    EXPECT_FALSE(encode_inline_rule(rule)) << c.what;
    rows[offset] = rule;
    rows[offset + 0x10] = rsp_plus(8);
    rows[offset + 0x20] = rule;
    offset += 0x30;
  }
  rows[offset] = kUnknown;
  const Table table = table_of(rows);
  EXPECT_EQ(table.view.rules.size(), 13U);
  expect_rules(table, rows);
}

TEST(UnwindTable, KeepsTheEndOfTheStackOutOfTheDictionary) {
  profd_rule end{};
  end.kind = PROFD_RULE_END;
  const Table table = table_of({{0x40, end}, {0x80, kUnknown}});
  EXPECT_TRUE(table.view.rules.empty());
  expect_rules(table, {{0x3f, kUnknown}, {0x40, end}, {0x7f, end}, {0x80, kUnknown}});
}

TEST(UnwindTable, MakesRulesUnknownIfTheDictionaryIsFull) {
  UnwindTableWriter writer;
  for (std::uint32_t i = 0; i < kMaxTableRules + 10; ++i) {
    writer.add({16 * i, deref_rule(static_cast<std::int32_t>(i))});
  }
  writer.add({16 * (kMaxTableRules + 10), kUnknown});
  const Table table = encoded(writer);
  EXPECT_EQ(table.view.rules.size(), kMaxTableRules);
  EXPECT_EQ(table.view.header.lost[static_cast<std::size_t>(CfiLoss::kOverLimit)], 10U);
  expect_rules(table, {{16 * kMaxTableRules - 1, deref_rule(kMaxTableRules - 1)},
                       {16 * kMaxTableRules, kUnknown}});
}

// One row a byte: more than a region's arena holds, and in all more than a table may.
TEST(UnwindTable, LimitsARegionToAnArenaAndEndsItWithAnUnknownRule) {
  UnwindTableWriter writer;
  for (std::uint64_t i = 0; i < 6 * kRegionBytes / 8; ++i) {
    writer.add({8 * i, rsp_plus(i % 2 == 0 ? 8 : 16)});
  }
  writer.add({6 * kRegionBytes, kUnknown});
  const Table table = encoded(writer);
  ASSERT_EQ(table.view.regions.size(), 5U);
  for (const UnwindRegionView& region : table.view.regions) {
    EXPECT_LE(region.bucket_starts.size() + region.rows.size(), PROFD_ARENA_WORDS);
  }
  EXPECT_LE(table.view.header.row_count, kMaxTableRows + 2);
  EXPECT_GT(table.view.header.lost[static_cast<std::size_t>(CfiLoss::kOverLimit)], 0U);
  expect_rules(table, {{kRegionBytes - 1, kUnknown},
                       {kRegionBytes, rsp_plus(8)},
                       {kRegionBytes + 8, rsp_plus(16)},
                       {6 * kRegionBytes - 1, kUnknown}});
}

TEST(UnwindTable, FindsTheRulesOfRandomRows) {
  std::mt19937_64 random(3);  // NOLINT: the same every time
  for (int round = 0; round < 50; ++round) {
    std::map<std::uint64_t, profd_rule> rows;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t offset = random() % (round % 2 == 0 ? 4096 : 5 * kRegionBytes);
      const auto size = static_cast<std::int32_t>(8 * (random() % 4));
      rows[offset] = random() % 8 == 0   ? kUnknown
                     : random() % 8 == 0 ? deref_rule(size)
                                         : rsp_plus(size);
    }
    rows[6 * kRegionBytes] = kUnknown;
    const Table table = table_of(rows);
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t offset = random() % (round % 2 == 0 ? 8192 : 6 * kRegionBytes);
      const auto after = rows.upper_bound(offset);
      const profd_rule& expected = after == rows.begin() ? kUnknown : std::prev(after)->second;
      ASSERT_TRUE(same(find_rule(table.view, offset), expected)) << round << " " << offset;
    }
  }
}

TEST(UnwindTable, AnEmptyTableHasUnknownRulesOnly) {
  UnwindTableWriter writer;
  const Table table = encoded(writer);
  EXPECT_TRUE(table.view.regions.empty());
  expect_rules(table, {{0, kUnknown}, {0x1000, kUnknown}});
}

// Positions in the bytes of a table with one rule and one region of one bucket.
constexpr std::size_t kRule = sizeof(UnwindTableHeader);
constexpr std::size_t kRegion = kRule + sizeof(profd_rule);
constexpr std::size_t kStarts = kRegion + sizeof(UnwindRegionHeader);
constexpr std::size_t kRows = kStarts + 8;

std::string small_table() {
  UnwindTableWriter writer;
  writer.add({0x10, deref_rule(16)});
  writer.add({0x20, rsp_plus(8)});
  writer.add({0x30, kUnknown});
  return *writer.encode();
}

void put(std::string& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

TEST(UnwindTable, SaysWhyATableIsRefused) {
  struct Case {
    const char* what;
    std::function<void(std::string&)> change;
    const char* message;
  };
  for (const Case& c : {
           Case{"empty", [](auto& b) { b.clear(); }, "not a table"},
           {"magic", [](auto& b) { b[7] = '2'; }, "not a table"},
           {"cut in the header", [](auto& b) { b.resize(20); }, "not a table"},
           {"cut in the rules", [](auto& b) { b.resize(kRule + 4); }, "malformed unwind rules"},
           {"too many rules", [](auto& b) { put(b, 8, kMaxTableRules + 1); }, "too many"},
           {"rule of no kind", [](auto& b) { b[kRule + 20] = PROFD_RULE_KIND_COUNT; }, "malformed"},
           {"rule of no register", [](auto& b) { b[kRule + 21] = 16; }, "malformed"},
           {"rule of no such saving", [](auto& b) { b[kRule + 23] = PROFD_SAVED_COUNT; },
            "malformed"},
           {"rule of no index", [](auto& b) { b[kRule + 25] = 17; }, "malformed"},
           {"more regions", [](auto& b) { put(b, 12, 2); }, "invalid header"},
           {"endless regions", [](auto& b) { put(b, 12, ~0U); }, "invalid header"},
           {"fewer regions", [](auto& b) { put(b, 12, 0); }, "differs from the header"},
           {"another row count", [](auto& b) { put(b, 16, 5); }, "differs from the header"},
           {"no buckets", [](auto& b) { put(b, kRegion + 8, 0); }, "invalid header"},
           {"endless buckets", [](auto& b) { put(b, kRegion + 8, ~0U); }, "invalid header"},
           {"bucket behind the last", [](auto& b) { put(b, kRegion + 4, 16384); },
            "invalid header"},
           {"cut in the buckets", [](auto& b) { put(b, kRegion + 8, 9); }, "truncated buckets"},
           {"no rows", [](auto& b) { put(b, kRegion + 12, 0); }, "invalid header"},
           {"too many rows", [](auto& b) { put(b, kRegion + 12, 5); }, "truncated rows"},
           {"rows of more than an arena", [](auto& b) { put(b, kRegion + 12, PROFD_ARENA_WORDS); },
            "invalid header"},
           {"no sentinel", [](auto& b) { put(b, kStarts, 0); }, "out of order"},
           {"buckets that fall", [](auto& b) { put(b, kStarts, 9); }, "out of order"},
           {"buckets that end early", [](auto& b) { put(b, kStarts + 4, 3); }, "out of order"},
           {"rows that fall", [](auto& b) { b[kRows + 8] = 0; }, "out of order"},
           {"rows of one place", [](auto& b) { b[kRows + 8] = 0x10; }, "out of order"},
           {"invalid rule index",
            [](auto& b) { put(b, kRows, (PROFD_RULE_IN_DICTIONARY | 3) << PROFD_ROW_RULE_SHIFT); },
            "invalid rule index"},
           {"more bytes", [](auto& b) { b.append(4, '\0'); }, "differs from the header"},
       }) {
    std::string bytes = small_table();
    ASSERT_TRUE(read_unwind_table(bytes));
    c.change(bytes);
    const auto table = read_unwind_table(bytes);
    ASSERT_FALSE(table) << c.what;
    EXPECT_EQ(table.error().code, ErrorCode::kMalformed);
    EXPECT_THAT(table.error().message, HasSubstr(c.message)) << c.what;
  }
}

TEST(UnwindTable, RefusesFileRegionsThatAreOutOfOrder) {
  UnwindTableWriter writer;
  for (const std::uint64_t region : {0, 2}) {
    writer.add({region * kRegionBytes + 8, rsp_plus(8)});
    writer.add({region * kRegionBytes + 16, kUnknown});
  }
  std::string bytes = *writer.encode();
  put(bytes, sizeof(UnwindTableHeader), 2);
  EXPECT_FALSE(read_unwind_table(bytes));
  put(bytes, sizeof(UnwindTableHeader), 3);
  EXPECT_FALSE(read_unwind_table(bytes));
  put(bytes, sizeof(UnwindTableHeader), 1);
  EXPECT_TRUE(read_unwind_table(bytes));
}

TEST(UnwindTable, NamesEachLoss) {
  for (std::size_t i = 0; i < kCfiLossCount; ++i) {
    EXPECT_FALSE(name_of(static_cast<CfiLoss>(i)).empty());
  }
}

}  // namespace
}  // namespace profd
