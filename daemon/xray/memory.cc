#include "daemon/xray/memory.h"

#include <algorithm>
#include <string>

namespace profd {
namespace {

static_assert(kMaxXraySessions * kLeastXrayBytes <= kXrayMemoryBytes);

Error limit_reached(const std::string& what) {
  return fail(ErrorCode::kBusy, what, "stop one of them, or fetch those that have ended");
}

}  // namespace

Result<std::uint64_t> xray_memory_for(const XrayHoldings& held, bool privileged) {
  if (held.sessions >= kMaxXraySessions) {
    return limit_reached(std::to_string(kMaxXraySessions) + " sessions record calls already");
  }
  if (!privileged && held.unprivileged_sessions >= kMaxUnprivilegedXraySessions) {
    return limit_reached(std::to_string(kMaxUnprivilegedXraySessions) +
                         " sessions of unprivileged users record calls already");
  }
  const std::uint64_t reserved = (kMaxXraySessions - held.sessions) * kLeastXrayBytes;
  const std::uint64_t spare = kXrayMemoryBytes - std::min(kXrayMemoryBytes, held.bytes + reserved);
  if (privileged) return kLeastXrayBytes + spare / 2;
  const std::uint64_t left = kXrayBytesOfUser - std::min(kXrayBytesOfUser, held.bytes_of_user);
  if (left < kLeastXrayBytes) {
    return limit_reached("your sessions have all memory that one user may have");
  }
  return std::min(left, kLeastXrayBytes + spare / 16);
}

}  // namespace profd
