#include "daemon/samples/sample_budget.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/samples/aggregator.h"
#include "daemon/samples/snapshot.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kNoLimit;
using test::SyntheticSample;

std::shared_ptr<ChargedBytes> charge(const std::shared_ptr<SampleBudget>& budget, uid_t user,
                                     std::uint64_t bytes) {
  auto charged = std::make_shared<ChargedBytes>(budget, user);
  charged->add(bytes);
  return charged;
}

TEST(SampleBudget, OneUserAloneHasHalfAndEachOtherAnEighth) {
  const auto budget = std::make_shared<SampleBudget>(800);
  EXPECT_EQ(ChargedBytes(budget, 1001).room(), 400U);
  const auto first = charge(budget, 1001, 300);
  EXPECT_EQ(first->room(), 100U);
  EXPECT_EQ(ChargedBytes(budget, 1002).room(), 100U);
  first->add(100);
  EXPECT_EQ(first->room(), 0U);
  std::vector<std::shared_ptr<ChargedBytes>> others;
  for (uid_t user = 1002; user <= 1005; ++user) {
    EXPECT_EQ(ChargedBytes(budget, user).room(), 100U) << user;
    others.push_back(charge(budget, user, 100));
    EXPECT_EQ(others.back()->room(), 0U) << user;
  }
  EXPECT_EQ(budget->bytes(), 800U);
  EXPECT_EQ(ChargedBytes(budget, 1006).room(), 0U);
}

TEST(SampleBudget, UsersShareWhatOneOfThemMayHaveWhileTheyHaveLittle) {
  const auto budget = std::make_shared<SampleBudget>(800);
  const auto first = charge(budget, 1001, 150);
  const auto second = charge(budget, 1002, 50);
  EXPECT_EQ(first->room(), 200U) << "up to half of the budget";
  EXPECT_EQ(second->room(), 200U);
  second->add(220);  // one stack too large is charged too
  EXPECT_EQ(first->room(), 0U);
  EXPECT_EQ(second->room(), 0U);
}

TEST(SampleBudget, AUsersSamplesCountTogetherAndAreReturnedWhenTheyAreDestroyed) {
  const auto budget = std::make_shared<SampleBudget>(800);
  auto first = charge(budget, 1001, 60);
  auto second = first->another();
  second->add(340);
  EXPECT_EQ(first->room(), 0U);
  first->remove(10);
  EXPECT_EQ(second->room(), 10U);
  EXPECT_EQ(budget->bytes(), 390U);
  std::jthread([gone = std::move(second)]() mutable { gone.reset(); }).join();
  EXPECT_EQ(budget->bytes(), 50U);
  EXPECT_EQ(first->room(), 350U);
  first.reset();
  EXPECT_EQ(budget->bytes(), 0U);
}

// Two users' sessions, and one of root.
class BudgetedSessionsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kBudget = 256 << 10;
  static constexpr std::uint64_t kStack = 256;  // no stack of this test takes more

  BudgetedSessionsTest() {
    for (SessionSlot slot = 0; slot < 3; ++slot) open(slot, 1001 + slot % 2);
    aggregator_.open(3, kNoLimit);
  }
  void open(SessionSlot slot, uid_t user) {
    aggregator_.open(slot, kNoLimit, false, MemoryShares::kNone,
                     std::make_shared<ChargedBytes>(budget_, user));
  }
  // Samples of so many stacks, each a new one.
  void add_stacks(SessionSlot slot, int count) {
    for (int i = 0; i < count; ++i) {
      SyntheticSample sample({.tgid = 7, .exec_id = 1, .start_ns = 100});
      aggregator_.on_sample(sample.leaf(++address_).sessions(1U << slot).view());
    }
  }
  [[nodiscard]] std::uint64_t bytes(SessionSlot slot) const {
    return aggregator_.samples(slot).bytes;
  }

  std::shared_ptr<SampleBudget> budget_ = std::make_shared<SampleBudget>(kBudget);
  Aggregator aggregator_;
  std::uint64_t address_ = 1000;
};

TEST_F(BudgetedSessionsTest, OneUsersSessionsFillItsPartAndNoOthers) {
  add_stacks(0, 2000);
  add_stacks(2, 1000);  // of the same user
  EXPECT_LE(bytes(0) + bytes(2), kBudget / 2);
  EXPECT_GT(bytes(0) + bytes(2), kBudget / 2 - kStack);
  EXPECT_EQ(aggregator_.samples(0).samples + aggregator_.samples(0).refused, 2000U);
  EXPECT_EQ(aggregator_.samples(2).refused, 1000U) << "the first session has all";
  add_stacks(1, 1000);
  EXPECT_LE(bytes(1), kBudget / 8);
  EXPECT_GT(bytes(1), kBudget / 8 - kStack);
  EXPECT_EQ(budget_->bytes(), bytes(0) + bytes(1) + bytes(2));
  add_stacks(3, 5000);
  EXPECT_EQ(aggregator_.samples(3).samples, 5000U) << "root is not touched";
  EXPECT_EQ(budget_->bytes(), bytes(0) + bytes(1) + bytes(2));
}

TEST_F(BudgetedSessionsTest, SamplesAreChargedUntilTheirSnapshotIsDestroyed) {
  add_stacks(0, 100);
  const std::uint64_t before = bytes(0);
  SessionSnapshot part;
  add_samples(part, aggregator_.take(0), aggregator_.processes());
  EXPECT_EQ(bytes(0), 0U);
  EXPECT_EQ(budget_->bytes(), before);
  add_stacks(0, 2000);
  EXPECT_LE(bytes(0) + before, kBudget / 2) << "what was taken counts still";
  EXPECT_GT(aggregator_.samples(0).refused, 0U);
  SessionSnapshot rest;
  add_samples(rest, aggregator_.close(0), aggregator_.processes());
  EXPECT_EQ(budget_->bytes(), part.bytes + rest.bytes);
  part = SessionSnapshot();
  EXPECT_EQ(budget_->bytes(), rest.bytes);
  rest = SessionSnapshot();
  EXPECT_EQ(budget_->bytes(), 0U);
}

TEST_F(BudgetedSessionsTest, KnownStacksAreCountedWithoutRoom) {
  add_stacks(0, 1);
  const auto all = charge(budget_, 1002, kBudget);
  SyntheticSample sample({.tgid = 7, .exec_id = 1, .start_ns = 100});
  aggregator_.on_sample(sample.leaf(address_).sessions(1).view());
  EXPECT_EQ(aggregator_.samples(0).samples, 2U);
  add_stacks(0, 1);
  EXPECT_EQ(aggregator_.samples(0).samples, 2U);
  EXPECT_EQ(aggregator_.samples(0).refused, 1U);
}

}  // namespace
}  // namespace profd
