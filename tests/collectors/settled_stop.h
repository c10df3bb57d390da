// The end of a session whose last samples a test wants.

#pragma once

#include <chrono>
#include <thread>

#include "collectors/sampling/sampler.h"

namespace profd::test {

// Waits for 10 s at most, since the kernel side may have lost some without a count. An emulated
// machine needs seconds for what a flood left.
inline SlotLedger stop_when_settled(Sampler& sampler, SessionSlot slot) {
  sampler.end_matching(slot);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!sampler.is_settled(slot) && std::chrono::steady_clock::now() < end) {
    if (!sampler.drain()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return sampler.stop(slot);
}

}  // namespace profd::test
