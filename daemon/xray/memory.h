// Memory limits of the followers: each gets a share of one sum.
//
// Every session that may run can have kLeastXrayBytes at any time; of the rest, the next session
// gets half, so that a single big app can have much. Unprivileged users get less, and one of them
// at most a quarter of the sum. A session keeps its share until its result is stored.

#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/base/result.h"

namespace profd {

inline constexpr std::size_t kMaxXraySessions = 16;
inline constexpr std::size_t kMaxUnprivilegedXraySessions = 8;  // of all such users together
inline constexpr std::uint64_t kXrayMemoryBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kLeastXrayBytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kXrayBytesOfUser = kXrayMemoryBytes / 4;

// What the present sessions have.
struct XrayHoldings {
  std::size_t sessions = 0;
  std::uint64_t bytes = 0;
  std::size_t unprivileged_sessions = 0;
  std::uint64_t bytes_of_user = 0;  // of the caller
};

// The memory limit of one more session. kBusy says which limit is reached.
[[nodiscard]] Result<std::uint64_t> xray_memory_for(const XrayHoldings& held, bool privileged);

}  // namespace profd
