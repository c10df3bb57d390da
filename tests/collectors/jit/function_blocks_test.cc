// Functions in blocks: they behave as a sorted list of them does, and what is shared never changes.

#include "collectors/jit/function_blocks.h"

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

constexpr std::uint64_t kAllAddresses = UINT64_MAX;

// The end and the number of each function, by its start.
using FunctionModel = std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>;

JitFunctionRows function_of(std::uint64_t start, std::uint64_t end, std::uint64_t number = 0) {
  return JitFunctionRows({.start = start, .end = end, .rows = {{.offset = number, .rule = {}}}});
}

FunctionModel model_of(const JitFunctionBlocks::Functions& functions) {
  FunctionModel model;
  for (const JitFunctionRows& function : functions) {
    model[function.start()] = {function.end(), function.rows().front().offset};
  }
  EXPECT_EQ(model.size(), functions.size());
  return model;
}

FunctionModel take_from(FunctionModel& model, std::uint64_t start, std::uint64_t end) {
  FunctionModel taken;
  auto at = model.upper_bound(start);
  if (at != model.begin() && std::prev(at)->second.first > start) --at;
  while (at != model.end() && at->first < end) taken.insert(model.extract(at++));
  return taken;
}

// Functions that grow denser and are removed by small and by large ranges.
TEST(JitFunctionBlocksTest, BehaveAsASortedListOfFunctionsDoes) {
  std::mt19937_64 random(7);  // NOLINT: the same every time
  JitFunctionBlocks blocks;
  FunctionModel model;
  std::vector<std::pair<JitFunctionBlocks, FunctionModel>> shared;
  for (std::uint64_t number = 0; number < 40'000; ++number) {
    const std::uint64_t start = random() % 60'000;
    const bool is_large = random() % 500 == 0;
    const std::uint64_t end = start + 1 + random() % (is_large ? 20'000 : 4);
    ASSERT_EQ(model_of(blocks.take(start, end)), take_from(model, start, end));
    if (!is_large && random() % 3 != 0) {
      blocks.insert(function_of(start, end, number));
      model[start] = {end, number};
    }
    if (number % 2000 == 0) shared.emplace_back(blocks.share(), model);
    ASSERT_EQ(blocks.size(), model.size());
    ASSERT_LE(blocks.blocks(), 4 * blocks.size() / JitFunctionBlocks::kMaxBlock + 2);
  }
  EXPECT_GT(blocks.blocks(), 20U);
  EXPECT_EQ(model_of(blocks.find(0, kAllAddresses)), model);
  for (const auto& [copy, expected] : shared) {
    EXPECT_EQ(model_of(copy.find(0, kAllAddresses)), expected);
  }
}

TEST(JitFunctionBlocksTest, FindsFunctionsThatOverlapInPart) {
  JitFunctionBlocks blocks;
  for (std::uint64_t i = 0; i < 1000; ++i) blocks.insert(function_of(10 * i, 10 * i + 5, i));
  EXPECT_EQ(blocks.find(5, 10).size(), 0U);
  EXPECT_EQ(blocks.find(4, 10).size(), 1U);
  EXPECT_EQ(blocks.find(4, 11).size(), 2U);
  EXPECT_EQ(blocks.find(4000, 5000).size(), 100U);
  EXPECT_EQ(blocks.find(9995, kAllAddresses).size(), 0U);
  EXPECT_EQ(JitFunctionBlocks().find(0, kAllAddresses).size(), 0U);
  EXPECT_EQ(JitFunctionBlocks().take(0, kAllAddresses).size(), 0U);
}

TEST(JitFunctionBlocksTest, BothOfTwoThatShareFunctionsMayChange) {
  JitFunctionBlocks one;
  for (std::uint64_t i = 0; i < 1000; ++i) one.insert(function_of(10 * i, 10 * i + 5));
  JitFunctionBlocks other = one.share();
  EXPECT_EQ(one.take(0, 5000).size(), 500U);
  EXPECT_EQ(other.take(5000, 10'000).size(), 500U);
  one.insert(function_of(7, 9));
  EXPECT_EQ(one.size(), 501U);
  EXPECT_EQ(one.find(0, kAllAddresses).size(), 501U);
  EXPECT_EQ(other.find(0, kAllAddresses).size(), 500U);
  EXPECT_EQ(one.find(5000, kAllAddresses).size(), 500U);
  EXPECT_EQ(other.find(0, 5000).size(), 500U);
}

// Copies share the rows, so their places show what is shared.
TEST(JitFunctionBlocksTest, SharingAndChangesCopyNoRows) {
  JitFunctionBlocks blocks;
  for (std::uint64_t i = 0; i < 10'000; ++i) blocks.insert(function_of(10 * i, 10 * i + 5));
  const auto places = [](const JitFunctionBlocks& of) {
    std::vector<const UnwindRow*> rows;
    for (const auto& function : of.find(0, kAllAddresses)) rows.push_back(function.rows().data());
    return rows;
  };
  const auto before = places(blocks);
  const JitFunctionBlocks shared = blocks.share();
  ASSERT_EQ(blocks.take(99'990, kAllAddresses).size(), 1U);
  EXPECT_EQ(places(shared), before);
  EXPECT_EQ(places(blocks), std::vector(before.begin(), before.end() - 1));
}

}  // namespace
}  // namespace profd::test
