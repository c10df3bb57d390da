// What the attacks share: how long and how large they are, short in make check and more in make
// attack (ATTACK_SECONDS), and the question that root asks meanwhile.

#pragma once

#include <chrono>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {

inline std::chrono::seconds attack_time(std::chrono::seconds usual) {
  const char* const seconds = std::getenv("ATTACK_SECONDS");
  return seconds == nullptr ? usual : std::chrono::seconds(std::atoi(seconds));
}

inline bool is_long_attack() { return std::getenv("ATTACK_SECONDS") != nullptr; }

inline int attack_count(int usual, int most) { return is_long_attack() ? most : usual; }

// Whatever users do, root is answered within a second. Returns the status.
inline StatusInfo ask_as_root(const Daemon& daemon) {
  const auto began = std::chrono::steady_clock::now();
  RawClient root(daemon.admin_socket());
  const RawAnswer answer = root.ask("GET", "/v1/status");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  const Result<StatusInfo> status = parse_status_info(answer.body);
  if (status) return *status;
  ADD_FAILURE() << status.error().message << "\n" << answer.body;
  return {};
}

}  // namespace profd::e2e
