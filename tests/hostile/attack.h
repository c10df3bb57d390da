// How long an attack lasts: short in make check, ATTACK_SECONDS in make attack.

#pragma once

#include <chrono>
#include <cstdlib>

namespace profd::e2e {

inline std::chrono::seconds attack_time(std::chrono::seconds usual) {
  const char* const seconds = std::getenv("ATTACK_SECONDS");
  return seconds == nullptr ? usual : std::chrono::seconds(std::atoi(seconds));
}

}  // namespace profd::e2e
