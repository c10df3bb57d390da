// Runs a call that a FUSE server must not delay.

#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "tests/collectors/silent_fuse.h"

namespace profd::test {

// What the call returns. A call that waits for the server is a failure, and ends with the server:
// nothing else ends it.
template <class Call>
auto result_without_server(std::optional<SilentFuse>& fuse, Call call) {
  auto result = std::async(std::launch::async, std::move(call));
  const bool is_late = result.wait_for(std::chrono::seconds(20)) != std::future_status::ready;
  EXPECT_FALSE(is_late) << "waits for the server";
  if (is_late) fuse.reset();
  return result.get();
}

}  // namespace profd::test
