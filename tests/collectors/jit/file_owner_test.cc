// A file that is named after a process causes a scan only where it may belong to the process.

#include <cstdint>

#include <gtest/gtest.h>

#include "collectors/jit/scan.h"

namespace profd::test {
namespace {

constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kOtherUid = 1001;
constexpr std::uint32_t kPidInNamespace = 17;
constexpr ProcessKey kProcess{.tgid = 0x7ffffff0, .exec_id = 1, .start_ns = 1};

// A process whose samples have the uid kUser.
bool may_belong(const JitProcessFacts& facts, std::uint32_t pid, std::uint32_t owner) {
  return may_belong_to(kProcess, facts, kUser, pid, owner);
}

JitProcessFacts scanned_as(std::uint32_t uid) {
  JitProcessFacts facts;
  facts.uid = uid;
  facts.pid_in_namespace = kPidInNamespace;
  return facts;
}

TEST(JitFileOwnerTest, AFileOfItsUserOrOfRootMayBelongToAProcess) {
  for (const std::uint32_t owner : {kUser, 0U}) {
    for (const std::uint32_t pid : {kPidInNamespace, kProcess.tgid}) {
      EXPECT_TRUE(may_belong(scanned_as(kUser), pid, owner)) << owner << " " << pid;
    }
  }
}

TEST(JitFileOwnerTest, AFileOfAnotherUserOrPidDoesNotBelongToAProcess) {
  EXPECT_FALSE(may_belong(scanned_as(kUser), kPidInNamespace, kOtherUid));
  EXPECT_FALSE(may_belong(scanned_as(kUser), kProcess.tgid, kOtherUid));
  EXPECT_FALSE(may_belong(scanned_as(kUser), kPidInNamespace + 1, kUser));
}

// The process may have become another user's since its first sample.
TEST(JitFileOwnerTest, TheUserIsTheOneOfTheScan) {
  EXPECT_FALSE(may_belong(scanned_as(kOtherUid), kPidInNamespace, kUser));
  EXPECT_TRUE(may_belong(scanned_as(kOtherUid), kPidInNamespace, kOtherUid));
}

TEST(JitFileOwnerTest, TheUserIsTheOneOfTheSamplesWhereTheProcessEndedBeforeItsScan) {
  EXPECT_FALSE(may_belong({}, kProcess.tgid, kOtherUid));
  EXPECT_TRUE(may_belong({}, kProcess.tgid, kUser));
}

}  // namespace
}  // namespace profd::test
