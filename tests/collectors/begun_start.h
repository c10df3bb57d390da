// The start of a session whose processes are all added.

#pragma once

#include <chrono>
#include <thread>

#include "collectors/sampling/sampler.h"

namespace profd::test {

// Waits for a minute at most, since a start that hangs would hang the test.
inline Result<SessionSlot> start_and_begin(Sampler& sampler, const EventSpec& event,
                                           const Target& target) {
  const auto slot = sampler.start(event, target);
  if (!slot) return slot;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    const auto begun = sampler.has_begun(*slot);
    if (!begun) return begun.error();
    if (*begun) return slot;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fail(ErrorCode::kTimeout, "the session does not begin");
}

}  // namespace profd::test
