#include "collectors/unwinding/arena_space.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(ArenaSpaceTest, BlocksAreAdjacentAndNeverCrossAnArena) {
  ArenaSpace space(2, 100);
  const auto first = space.take(60);
  const auto second = space.take(30);
  const auto third = space.take(20);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->at, 0U);
  EXPECT_EQ(second->at, 60U);
  EXPECT_EQ(third->arena, 1U);
  EXPECT_EQ(third->at, 0U);
  EXPECT_EQ(space.words_taken(), 110U);
}

TEST(ArenaSpaceTest, ReleasedNeighboursAreMerged) {
  ArenaSpace space(1, 100);
  const auto a = space.take(30);
  const auto b = space.take(30);
  const auto c = space.take(40);
  EXPECT_FALSE(space.take(1));
  space.release(*a);
  space.release(*c);
  EXPECT_FALSE(space.take(41));
  space.release(*b);
  EXPECT_TRUE(space.take(100));
}

TEST(ArenaSpaceTest, ZeroWordsAndMoreThanAnArenaAreRefused) {
  ArenaSpace space(3, 100);
  EXPECT_FALSE(space.take(0));
  EXPECT_FALSE(space.take(101));
  EXPECT_EQ(space.arenas(), 0U);
  EXPECT_FALSE(ArenaSpace(0, 100).take(1));
}

// Against a plain map of words.
TEST(ArenaSpaceTest, NoWordIsAllocatedTwice) {
  constexpr std::uint32_t kWords = 256;
  ArenaSpace space(3, kWords);
  std::vector<bool> taken(3 * kWords);
  std::vector<ArenaBlock> blocks;
  std::minstd_rand random(1);
  for (int i = 0; i < 20'000; ++i) {
    if (!blocks.empty() && random() % 2 == 0) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const ArenaBlock gone = blocks.back();
      blocks.pop_back();
      for (std::uint32_t w = 0; w < gone.words; ++w)
        taken[gone.arena * kWords + gone.at + w] = false;
      space.release(gone);
    } else if (const auto block = space.take(1 + static_cast<std::uint32_t>(random() % 60))) {
      ASSERT_LE(block->at + block->words, kWords);
      for (std::uint32_t w = 0; w < block->words; ++w) {
        ASSERT_FALSE(taken[block->arena * kWords + block->at + w]);
        taken[block->arena * kWords + block->at + w] = true;
      }
      blocks.push_back(*block);
    }
    ASSERT_EQ(space.words_taken(),
              static_cast<std::uint64_t>(std::count(taken.begin(), taken.end(), true)));
  }
}

}  // namespace
}  // namespace profd
