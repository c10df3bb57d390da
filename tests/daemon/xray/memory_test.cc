#include "daemon/xray/memory.h"

#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

// Starts sessions until one is refused; returns the memory of each.
std::vector<std::uint64_t> all_grants(bool privileged, XrayHoldings& held) {
  std::vector<std::uint64_t> grants;
  for (;;) {
    const auto bytes = xray_memory_for(held, privileged);
    if (!bytes) return grants;
    grants.push_back(*bytes);
    ++held.sessions;
    held.bytes += *bytes;
    held.unprivileged_sessions += privileged ? 0 : 1;
    held.bytes_of_user += *bytes;
  }
}

TEST(XrayMemory, AllSessionsTogetherStayWithinTheSumAndEachHasTheLeast) {
  XrayHoldings held;
  const auto grants = all_grants(true, held);
  EXPECT_EQ(grants.size(), kMaxXraySessions);
  EXPECT_THAT(grants, testing::Each(testing::Ge(kLeastXrayBytes)));
  EXPECT_LE(held.bytes, kXrayMemoryBytes);
}

TEST(XrayMemory, ASingleSessionHasAQuarterOfTheSum) {
  EXPECT_GE(*xray_memory_for({}, true), kXrayMemoryBytes / 4);
}

TEST(XrayMemory, OneUnprivilegedUserHasAQuarterAtMost) {
  XrayHoldings held;
  EXPECT_GE(all_grants(false, held).size(), 3U);
  EXPECT_LE(held.bytes, kXrayBytesOfUser);
  const auto refused = xray_memory_for(held, false);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("one user"));
}

TEST(XrayMemory, UnprivilegedUsersLeavePlacesForPrivilegedOnes) {
  XrayHoldings held;
  for (int user = 0; user < 100; ++user) {
    held.bytes_of_user = 0;
    (void)all_grants(false, held);
  }
  EXPECT_EQ(held.unprivileged_sessions, 8U);
  EXPECT_LE(held.bytes, kXrayMemoryBytes / 2);
  EXPECT_EQ(all_grants(true, held).size(), 8U);
  EXPECT_LE(held.bytes, kXrayMemoryBytes);
}

}  // namespace
}  // namespace profd
