#include "collectors/sampling/session_slots.h"

#include <cstddef>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;

constexpr SessionOwner user(uid_t uid) { return {.rank = Rank::kUnprivileged, .user = uid}; }

class SessionSlotsTest : public testing::Test {
 protected:
  Result<SessionSlot> take(const SessionOwner& owner) {
    const auto slot = slots_.find_free(owner);
    if (slot) slots_.take(*slot, owner);
    return slot;
  }
  // As where a start fails.
  bool take_and_end(const SessionOwner& owner) {
    const auto slot = take(owner);
    if (slot) slots_.end(*slot);
    return slot.has_value();
  }
  void free_settled() {
    slots_.free_settled([](SessionSlot) { return true; },
                        [this](SessionSlot slot) { released_.push_back(slot); });
  }

  SessionSlots slots_;
  std::vector<SessionSlot> released_;
};

TEST_F(SessionSlotsTest, UsersHaveHalfOfTheSlotsAndWindowsHaveFour) {
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(take(user(1000)));
  EXPECT_EQ(take(user(1001)).error().code, ErrorCode::kBusy);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(take({.rank = Rank::kPrivileged}));
  EXPECT_FALSE(take({.rank = Rank::kPrivileged}));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(take({.rank = Rank::kContinuous}));
  EXPECT_FALSE(take({.rank = Rank::kContinuous}));
}

TEST_F(SessionSlotsTest, AUserWhoseStartsFailLeavesTheSlotsToOthers) {
  for (std::size_t i = 0; i < SessionSlots::kMaxEndingOfUser; ++i) {
    ASSERT_TRUE(take_and_end(user(1000)));
  }
  EXPECT_FALSE(take_and_end(user(1000)));
  EXPECT_EQ(slots_.find_free(user(1000)).error().code, ErrorCode::kBusy);
  EXPECT_TRUE(slots_.find_free(user(1001)));
  EXPECT_TRUE(take_and_end({.rank = Rank::kPrivileged}));
  free_settled();
  EXPECT_EQ(released_.size(), SessionSlots::kMaxEndingOfUser + 1);
  EXPECT_TRUE(take(user(1000)));
}

TEST_F(SessionSlotsTest, AllUsersWhoseStartsFailHaveHalfOfTheUsersSlots) {
  std::size_t ended = 0;
  for (uid_t uid = 1000; uid < 1020; ++uid) {
    while (take_and_end(user(uid))) ++ended;
  }
  EXPECT_EQ(ended, SessionSlots::kMaxEnding);
  EXPECT_TRUE(take({.rank = Rank::kPrivileged}));
}

TEST_F(SessionSlotsTest, ASlotIsFreeOnceItIsSettledAndIsReleasedOnce) {
  const SessionSlot ended = *take(user(1000));
  const SessionSlot retired = *take(user(1000));
  const SessionSlot live = *take(user(1000));
  slots_.end(ended);
  slots_.retire(retired);
  bool is_settled = false;
  const auto free_them = [&] {
    slots_.free_settled([&](SessionSlot) { return is_settled; },
                        [this](SessionSlot slot) { released_.push_back(slot); });
  };
  free_them();
  EXPECT_THAT(released_, ElementsAre());
  EXPECT_NE(*slots_.find_free(user(1000)), retired);
  is_settled = true;
  free_them();
  EXPECT_THAT(released_, ElementsAre(ended)) << "the other one was released before";
  EXPECT_EQ(*take(user(1000)), ended);
  EXPECT_EQ(*take(user(1000)), retired);
  EXPECT_NE(*take(user(1000)), live);
}

}  // namespace
}  // namespace profd
