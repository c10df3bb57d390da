// How much memory the process that follows an app may take: a share of one sum for all of them.
//
// Every session that may run gets the least at any time; of what is not set aside for that, the
// next one gets half, so that one big app alone has much. Who isn't root or of group profd gets
// less, and one such user a quarter of the sum at most. What a session got it holds until its
// result is stored.

#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/base/result.h"

namespace profd {

inline constexpr std::size_t kMaxXraySessions = 16;
inline constexpr std::size_t kMaxUnprivilegedXraySessions = 12;  // of all such users together
inline constexpr std::uint64_t kXrayMemoryBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kLeastXrayBytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kXrayBytesOfUser = kXrayMemoryBytes / 4;

// What sessions hold already.
struct XrayHoldings {
  std::size_t sessions = 0;
  std::uint64_t bytes = 0;
  std::size_t unprivileged_sessions = 0;
  std::uint64_t bytes_of_user = 0;  // of the one who asks
};

// Bytes for one session more. kBusy says what is used up.
[[nodiscard]] Result<std::uint64_t> xray_memory_for(const XrayHoldings& held, bool privileged);

}  // namespace profd
