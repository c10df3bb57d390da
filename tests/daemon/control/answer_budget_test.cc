#include "daemon/control/answer_budget.h"

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(AnswerBudgetTest, AUserHasALimitAndItsSmallAnswersAreNotCounted) {
  AnswerBudget budget;
  const auto first = budget.take(1000, 5 * kMiB);
  ASSERT_TRUE(first);
  auto second = budget.take(1000, 3 * kMiB);
  ASSERT_TRUE(second);
  EXPECT_FALSE(budget.take(1000, AnswerBudget::kSmallBytes + 1));
  const auto small = budget.take(1000, AnswerBudget::kSmallBytes);
  EXPECT_TRUE(small);
  EXPECT_TRUE(budget.take(1001, 5 * kMiB)) << "another user";
  EXPECT_EQ(budget.bytes(), AnswerBudget::kMaxBytesOfUser);
  second.reset();
  EXPECT_TRUE(budget.take(1000, 3 * kMiB));
}

TEST(AnswerBudgetTest, AnAnswerOverTheLimitOfAUserIsItsOnlyOne) {
  AnswerBudget budget;
  const auto large = budget.take(1000, 20 * kMiB);
  ASSERT_TRUE(large);
  EXPECT_FALSE(budget.take(1000, kMiB));
  const auto another = budget.take(1001, kMiB);
  ASSERT_TRUE(another);
  EXPECT_FALSE(budget.take(1001, 20 * kMiB));
}

TEST(AnswerBudgetTest, AllUsersTogetherHaveALimit) {
  AnswerBudget budget;
  std::vector<std::unique_ptr<AnswerBudget::Share>> shares;
  for (uid_t user = 1000; user < 1008; ++user) {
    shares.push_back(budget.take(user, AnswerBudget::kMaxBytesOfUser));
    ASSERT_TRUE(shares.back()) << user;
  }
  EXPECT_FALSE(budget.take(2000, kMiB));
  shares.clear();
  EXPECT_EQ(budget.bytes(), 0U);
  EXPECT_FALSE(budget.take(2000, AnswerBudget::kMaxBytes + 1));
  EXPECT_TRUE(budget.take(2000, AnswerBudget::kMaxBytes));
}

}  // namespace
}  // namespace profd
