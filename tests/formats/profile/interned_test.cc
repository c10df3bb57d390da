#include "formats/profile/interned.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/profile/pprof_profile.h"

namespace profd {
namespace {

// Seeds make equal hashes too rare to occur by themselves.
TEST(HashIndex, KeepsEntriesOfOneHashApart) {
  const std::vector<std::string> values = {"a", "b", "c"};
  HashIndex index;
  const auto is = [&values](const std::string& value) {
    return [&values, value](std::uint32_t at) { return values[at] == value; };
  };
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    EXPECT_FALSE(index.find(7, is(values[i])));
    EXPECT_EQ(index.find_or_add(7, is(values[i])), i);
  }
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(index.find(7, is(values[i])), i);
    EXPECT_EQ(index.find_or_add(7, is(values[i])), i);
    EXPECT_FALSE(index.find(8, is(values[i])));
  }
  EXPECT_EQ(index.size(), 3U);
}

TEST(InternedLists, HoldsEachListOnce) {
  InternedLists<std::uint32_t> lists(1);
  const std::vector<std::vector<std::uint32_t>> some = {{},     {1}, {1, 2}, {1, 2, 3},
                                                        {2, 1}, {0}, {0, 0}};
  for (std::uint32_t i = 0; i < some.size(); ++i) EXPECT_EQ(lists.add(some[i]), i);
  for (std::uint32_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(lists.add(some[i]), i);
    EXPECT_TRUE(std::ranges::equal(lists[i], some[i]));
  }
  EXPECT_EQ(lists.size(), some.size());
}

// Each value has its index whatever was looked up before it.
TEST(InternedValues, FindsValuesInAnyOrder) {
  InternedValues<PprofLine> lines(1);
  const auto line = [](std::uint32_t number) { return PprofLine{.function = number, .line = 1}; };
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(lines.add(line(i)), i);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(lines.add(line(i)), i);
  for (const std::uint32_t i : {4U, 0U, 1U, 1U, 3U, 2U, 4U}) EXPECT_EQ(lines.add(line(i)), i);
  EXPECT_EQ(lines.size(), 5U);
}

// Texts of one start, of lengths around the eight bytes that are hashed at a time.
TEST(InternedTexts, StayWhereTheyAreWhenMoreComeAndWhenTheTableMoves) {
  InternedTexts texts(1);
  std::vector<std::string> wanted;
  std::vector<std::string_view> places;
  for (std::size_t i = 0; i < 3000; ++i) {
    wanted.push_back(std::to_string(i) + std::string(i % 100 == 99 ? 100'000 : i % 50, 'x'));
    EXPECT_EQ(texts.add(wanted.back()), i);
    places.push_back(texts[static_cast<std::uint32_t>(i)]);
  }
  const InternedTexts moved = std::move(texts);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(places[i], wanted[i]);
    EXPECT_EQ(moved[static_cast<std::uint32_t>(i)].data(), places[i].data());
    EXPECT_EQ(moved.find(wanted[i]), i);
  }
}

TEST(InternedTexts, OfACopyAreItsOwn) {
  InternedTexts texts(1);
  texts.add("both");
  InternedTexts copy = texts;
  texts.add("first");
  copy.add("other");
  EXPECT_EQ(texts[0], "both");
  EXPECT_EQ(texts[1], "first");
  EXPECT_EQ(copy[0], "both");
  EXPECT_EQ(copy[1], "other");
  texts = InternedTexts(2);
  EXPECT_EQ(copy[0], "both");
}

TEST(InternedTexts, HoldsEachTextOnceAtOnePlace) {
  InternedTexts texts(1);
  std::vector<std::string> some;
  for (std::size_t size = 0; size < 40; ++size) some.emplace_back(size, '\0');
  for (std::uint32_t i = 0; i < some.size(); ++i) EXPECT_EQ(texts.add(some[i]), i);
  const std::string_view first = texts[9];
  for (int i = 0; i < 5000; ++i) texts.add("other" + std::to_string(i));
  EXPECT_EQ(texts.add(some[9]), 9U);
  EXPECT_EQ(texts[9].data(), first.data());
  EXPECT_FALSE(texts.find("unknown"));
}

}  // namespace
}  // namespace profd
