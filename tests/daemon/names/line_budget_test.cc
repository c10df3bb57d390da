#include "daemon/names/line_budget.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kAlice = 1000;
constexpr std::uint32_t kBob = 1001;

TEST(LineBudget, FilesOfUsersLeaveHalfToThoseOfRoot) {
  LineBudget budget(2s, 600ms);
  EXPECT_EQ(budget.left_for(kRoot), 2s);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
  budget.spend(kAlice, 600ms);
  EXPECT_LE(budget.left_for(kAlice), 0s);
  EXPECT_EQ(budget.left_for(kBob), 400ms);  // of the half of all users
  budget.spend(kBob, 500ms);                // a call that took longer
  EXPECT_LE(budget.left_for(kBob), 0s);
  EXPECT_EQ(budget.left_for(kRoot), 900ms);
}

TEST(LineBudget, FilesOfRootTakeNoMoreThanAll) {
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

TEST(LineBudget, OwnersBeyondTheLimitGetNothingUntilOthersAreRefilled) {
  LineBudget budget(2s, 600ms);
  for (std::uint32_t owner = 1; owner <= LineBudget::kMaxOwners; ++owner) budget.spend(owner, 1ms);
  EXPECT_EQ(budget.left_for(kAlice), 0s);
  EXPECT_GT(budget.left_for(1), 0s);
  budget.refill(10min);
  EXPECT_EQ(budget.left_for(kAlice), 600ms);
}

}  // namespace
}  // namespace profd
