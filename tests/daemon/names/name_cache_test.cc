#include "daemon/names/name_cache.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

AddressNames inlined_into(const std::string& outer, std::uint64_t address) {
  return {.address = address,
          .frames = {{.name = "inner", .system_name = "_Z5innerv", .file = "/a.h", .line = 7},
                     {.name = outer, .file = "/b.cc", .line = 30, .start_line = 20}},
          .source = NameSource::kDwarf,
          .is_folded = true};
}

TEST(NameTableTest, AnAddressHasTheFramesThatWereSet) {
  NameTable names;
  EXPECT_EQ(names.find(0x10), nullptr);
  names.set(inlined_into("work", 0x10), false);
  const NameTable::Entry* entry = names.find(0x10);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->source, NameSource::kDwarf);
  EXPECT_TRUE(entry->is_folded);
  const auto lines = names.lines(*entry);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].line, 7U);
  EXPECT_EQ(lines[1].line, 30U);
  EXPECT_EQ(names.text(names.function(lines[0].function).name), "inner");
  EXPECT_EQ(names.text(names.function(lines[0].function).system_name), "_Z5innerv");
  EXPECT_EQ(names.text(names.function(lines[1].function).name), "work");
  EXPECT_EQ(names.text(names.function(lines[1].function).file), "/b.cc");
  EXPECT_EQ(names.function(lines[1].function).start_line, 20U);
}

TEST(NameTableTest, AnAddressWithoutNameKeepsItsReason) {
  NameTable names;
  names.set({.address = 0x20, .source = NameSource::kGap}, false);
  ASSERT_NE(names.find(0x20), nullptr);
  EXPECT_EQ(names.find(0x20)->source, NameSource::kGap);
  EXPECT_TRUE(names.lines(*names.find(0x20)).empty());
}

TEST(NameTableTest, EqualNamesTakeMemoryOnce) {
  NameTable names;
  names.set(inlined_into("work", 1), false);
  const std::size_t one = names.bytes();
  for (std::uint64_t address = 2; address <= 100; ++address) {
    names.set(inlined_into("work", address), false);
  }
  const std::size_t same = names.bytes();
  NameTable others;
  for (std::uint64_t address = 1; address <= 100; ++address) {
    others.set(inlined_into("work" + std::to_string(address), address), false);
  }
  EXPECT_GT(same, one);
  EXPECT_LT(same, others.bytes() / 2);
}

TEST(NameCacheTest, TheFileThatWasUsedLeastRecentlyIsDroppedFirst) {
  NameCache cache(8'000);
  for (const char* file : {"a", "b", "c"}) {
    for (std::uint64_t address = 0; address < 60; ++address) {
      cache.names_of(file).set({.address = address, .frames = {}}, false);
    }
  }
  (void)cache.names_of("a");
  ASSERT_GT(cache.bytes(), 8'000U);
  cache.trim();
  EXPECT_LE(cache.bytes(), 8'000U);
  EXPECT_NE(cache.names_of("a").find(1), nullptr);
  EXPECT_EQ(cache.names_of("b").find(1), nullptr);
}

// A user can have any number of them.
TEST(NameCacheTest, AFileWithoutNamesCountsWithItsTables) {
  NameCache cache;
  for (int i = 0; i < 100; ++i) (void)cache.names_of("file " + std::to_string(i));
  EXPECT_GT(cache.bytes(), 100 * 3 * sizeof(NameTable) / 2);
}

class NameCacheOfUsersTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kOwner = 0;
  static constexpr std::uint32_t kFlooder = 1000;
  static constexpr std::uint32_t kOther = 1001;

  // A part of the cache, a twentieth unless said, or up to twice that: tables double their memory.
  void add(const std::string& file, std::uint32_t payer, std::size_t part = 20) {
    NameTable& names = cache_.names_of(file);
    for (std::uint64_t address = 0; names.bytes() < kMaxBytes / part; ++address) {
      names.set({.address = address, .frames = {}}, false);
    }
    cache_.add_payer(file, payer);
  }
  bool has(const std::string& file) { return cache_.names_of(file).find(0) != nullptr; }
  std::string number(const std::string& file, unsigned i) { return file + std::to_string(i); }

  static constexpr std::size_t kMaxBytes = 800'000;
  NameCache cache_{kMaxBytes};
};

TEST_F(NameCacheOfUsersTest, AUserWithManyNamesDropsItsOwn) {
  add("root", kOwner);
  add("other", kOther);
  for (unsigned i = 0; i < 20; ++i) add(number("flood", i), kFlooder);
  cache_.trim();
  EXPECT_LE(cache_.bytes(), kMaxBytes);
  EXPECT_TRUE(has("root"));
  EXPECT_TRUE(has("other"));
  EXPECT_TRUE(has("flood19"));
  EXPECT_FALSE(has("flood0"));
}

TEST_F(NameCacheOfUsersTest, ManyUsersLeaveHalfToRoot) {
  for (unsigned i = 0; i < 4; ++i) add(number("root", i), kOwner);
  for (unsigned i = 0; i < 20; ++i) add(number("user", i), kFlooder + i);
  cache_.trim();
  for (unsigned i = 0; i < 4; ++i) EXPECT_TRUE(has(number("root", i))) << i;
  EXPECT_TRUE(has("user19"));
  EXPECT_FALSE(has("user0"));
}

TEST_F(NameCacheOfUsersTest, AUserAloneMayHaveMoreWhileThereIsRoom) {
  for (unsigned i = 0; i < 8; ++i) add(number("mine", i), kFlooder);
  cache_.trim();
  EXPECT_EQ(cache_.files(), 8U);
}

TEST_F(NameCacheOfUsersTest, WhatAUserLeavesBehindGoesSoon) {
  add("root", kOwner);
  for (unsigned i = 0; i < 3; ++i) add(number("flood", i), kFlooder);
  add("shared", kFlooder, 80);
  cache_.add_payer("shared", kOther);
  const auto later = NameCache::Clock::now() + NameCache::kUnused + std::chrono::seconds(1);
  (void)cache_.names_of("flood1", later);
  cache_.trim(later);
  EXPECT_TRUE(has("root")) << "of root's files an eighth of the cache stays";
  EXPECT_TRUE(has("flood1")) << "used just now";
  EXPECT_TRUE(has("shared")) << "the last one, and a small part of the cache may stay";
  EXPECT_FALSE(has("flood0"));
  EXPECT_FALSE(has("flood2"));
}

TEST_F(NameCacheOfUsersTest, OfRootsUnusedFilesTheLatestStayInAnEighth) {
  for (unsigned i = 0; i < 8; ++i) add(number("old", i), kOwner);
  const auto later = NameCache::Clock::now() + NameCache::kUnused + std::chrono::seconds(1);
  (void)cache_.names_of("old0", later);
  cache_.trim(later);
  EXPECT_TRUE(has("old0")) << "used just now";
  EXPECT_TRUE(has("old7"));
  EXPECT_FALSE(has("old1"));
  EXPECT_LE(cache_.bytes(), kMaxBytes / 8 + kMaxBytes / 10 + 4'096);
}

TEST_F(NameCacheOfUsersTest, AFileIsNotDroppedForAUserWhoHitItToo) {
  add("root", kOwner);
  add("other", kOther);
  for (const char* file : {"root", "other"}) cache_.add_payer(file, kFlooder);
  for (unsigned i = 0; i < 20; ++i) add(number("flood", i), kFlooder);
  cache_.trim();
  EXPECT_TRUE(has("root"));
  EXPECT_TRUE(has("other"));
}

}  // namespace
}  // namespace profd
