// Which uids of processes stay known in a flood of processes.

#include "collectors/files/process_users.h"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kFlooder = 1001;
constexpr std::uint32_t kFirst = 10'000;  // pid of the flood

constexpr ProcessKey process_of(std::uint32_t tgid) {
  return {.tgid = tgid, .exec_id = 1, .start_ns = 1};
}

// Twice as many processes as are kept.
void flood(ProcessUsers& users, std::uint32_t payer) {
  for (std::uint32_t i = 0; i < 2 * ProcessUsers::kMaxProcesses; ++i) {
    users.add(process_of(kFirst + i), 100'000 + i, payer);
    ASSERT_LE(users.size(), ProcessUsers::kMaxProcesses);
  }
}

TEST(ProcessUsersTest, AProgramTakesThePlaceOfTheOneThatItReplaces) {
  ProcessUsers users([](const ProcessKey&) { return false; });
  const ProcessKey first{.tgid = 7, .exec_id = 1, .start_ns = 1};
  const ProcessKey second{.tgid = 7, .exec_id = 2, .start_ns = 1};
  users.add(first, kUser, kUser);
  users.add(second, kFlooder, kFlooder);
  EXPECT_EQ(users.size(), 1U);
  EXPECT_EQ(users.uid_of(first), std::nullopt);
  EXPECT_EQ(users.uid_of(second), kFlooder);
}

TEST(ProcessUsersTest, ProcessesThatHaveEndedMakeRoomFirst) {
  ProcessUsers users([](const ProcessKey& process) { return process.tgid >= kFirst; });
  users.add(process_of(1), kUser, kUser);
  users.add(process_of(2), kFlooder, kFlooder);
  flood(users, kFlooder);
  EXPECT_EQ(users.uid_of(process_of(1)), kUser);
  EXPECT_EQ(users.uid_of(process_of(2)), kFlooder);
}

TEST(ProcessUsersTest, ProcessesThatHaveEndedStayForAMinute) {
  ProcessUsers users([](const ProcessKey& process) { return process.tgid >= kFirst; });
  const auto now = ProcessUsers::Clock::now();
  users.add(process_of(1), kUser, kUser, now);
  for (std::uint32_t i = 0; i < 1000; ++i) users.add(process_of(kFirst + i), kUser, kUser, now);
  users.add(process_of(2), kUser, kUser, now + ProcessUsers::kEndedStay / 2);
  EXPECT_EQ(users.size(), 1002U);
  users.add(process_of(3), kUser, kUser, now + 2 * ProcessUsers::kEndedStay);
  EXPECT_EQ(users.size(), 3U);
  EXPECT_EQ(users.uid_of(process_of(1)), kUser);
}

TEST(ProcessUsersTest, AFloodOfLivingProcessesTakesThoseOfItsUser) {
  ProcessUsers users([](const ProcessKey&) { return false; });
  users.add(process_of(1), kUser, kUser);
  users.add(process_of(2), 0, 0);
  flood(users, kFlooder);
  EXPECT_EQ(users.uid_of(process_of(1)), kUser);
  EXPECT_EQ(users.uid_of(process_of(2)), 0U);
}

TEST(ProcessUsersTest, AFloodOfRootTakesThoseOfRoot) {
  ProcessUsers users([](const ProcessKey&) { return false; });
  users.add(process_of(1), kUser, kUser);
  flood(users, 0);
  EXPECT_EQ(users.uid_of(process_of(1)), kUser);
}

}  // namespace
}  // namespace profd::test
