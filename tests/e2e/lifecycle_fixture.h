// A daemon with a workload and a directory to write to, used by profctl.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"

namespace profd::e2e {

class LifecycleTest : public ::testing::Test {
 protected:
  std::string start(const Args& options) {
    Args args{"start", "-F", "499"};
    args.insert(args.end(), options.begin(), options.end());
    const Ended started = daemon_.profctl(args);
    EXPECT_EQ(started.status, 0) << started.err;
    return first_line(started.out);
  }

  std::uint64_t samples_of(const std::string& id) {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    if (!sessions) return 0;
    const auto found = std::ranges::find(*sessions, id, &SessionInfo::session);
    return found == sessions->end() ? 0 : found->samples;
  }

  void wait_for_samples(const std::string& id, std::uint64_t count) {
    EXPECT_TRUE(eventually([&] { return samples_of(id) >= count; })) << "samples of " << id;
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  std::filesystem::path output_ = directory_.path() / "out";
  Process busy_{{workload("shares"), "600"}};
  std::string busy_pid_ = std::to_string(busy_.pid());
};

}  // namespace profd::e2e
