#include "daemon/names/line_budget.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kAlice = 1000;
constexpr std::uint32_t kBob = 1001;

TEST(LineBudget, UsersLeaveHalfToRoot) {
  LineBudget budget(2s, 600ms);
  EXPECT_EQ(budget.left_for(kRoot), 2s);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
  budget.spend(kAlice, 600ms);
  EXPECT_LE(budget.left_for(kAlice), 0s);
  EXPECT_EQ(budget.left_for(kBob), 400ms);  // of the half of all users
  budget.spend(kBob, 500ms);                // a call that took longer
  EXPECT_LE(budget.left_for(kBob), 0s);
  EXPECT_EQ(budget.left_for(kRoot), 1s);
  budget.spend(kAlice, 5s);
  EXPECT_EQ(budget.left_for(kRoot), 1s);
  budget.refill(10min);
  EXPECT_LE(budget.left_for(kAlice), 0s);
  EXPECT_EQ(budget.left_for(kRoot), 2s);
}

TEST(LineBudget, RootTakesNoMoreThanAll) {
  LineBudget budget(2s, 600ms);
  budget.spend(kRoot, 1900ms);
  EXPECT_EQ(budget.left_for(kRoot), 100ms);
  EXPECT_EQ(budget.left_for(kAlice), 100ms);
}

TEST(LineBudget, IsRefilledInTenMinutesAndNoFurther) {
  LineBudget budget(2s, 600ms);
  budget.spend(kRoot, 1s);
  budget.spend(kAlice, 600ms);
  budget.refill(1min);
  EXPECT_EQ(budget.left_for(kRoot), 600ms);
  EXPECT_EQ(budget.left_for(kAlice), 60ms);
  budget.refill(24h);
  EXPECT_EQ(budget.left_for(kRoot), 2s);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
}

TEST(LineBudget, UsersBeyondTheLimitShareOnePartUntilOthersAreRefilled) {
  LineBudget budget(2s, 600ms);
  for (std::uint32_t user = 1; user <= LineBudget::kMaxUsers; ++user) budget.spend(user, 1ms);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
  budget.spend(kAlice, 500ms);
  EXPECT_EQ(budget.left_for(kBob), 100ms);
  EXPECT_EQ(budget.left_for(1), 484ms);  // of the half of all users
  budget.refill(10min);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
}

TEST(LineBudget, AUserMayTakeThePartOfAllUsersWhileNoOtherWaits) {
  LineBudget budget(2s, 250ms, 1us);
  budget.set_one_alone(true);
  EXPECT_EQ(budget.left_for(kAlice), 1s);
  budget.spend(kAlice, 900ms);
  EXPECT_EQ(budget.left_for(kRoot), 1100ms);
  budget.set_one_alone(false);
  EXPECT_LT(budget.left_for(kAlice), 0s);
  EXPECT_EQ(budget.left_for(kBob), 100ms);
}

TEST(LineBudget, TheRestOfASessionIsForThoseWhoNeedMore) {
  EXPECT_FALSE(LineBudget::of_continuous_mode().keeps_rest());
  LineBudget budget = LineBudget::of_session();
  const LineBudget::Time all = budget.left_for(kRoot);
  EXPECT_EQ(budget.left_for(kAlice), all / 8);
  budget.spend(kAlice, all / 8);
  EXPECT_TRUE(budget.keeps_rest());
  budget.share_rest();
  EXPECT_FALSE(budget.keeps_rest());
  EXPECT_EQ(budget.left_for(kAlice), all - all / 8);
}

}  // namespace
}  // namespace profd
