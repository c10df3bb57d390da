// A daemon with a workload, for what the system does to daemons.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "formats/profile/gperftools_reader.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {

class FaultsTest : public ::testing::Test {
 protected:
  explicit FaultsTest(const Daemon::Options& options = {}) : daemon_(options) {}

  std::string start(const Args& options) {
    Args args{"start"};
    args.insert(args.end(), options.begin(), options.end());
    const Ended started = daemon_.profctl(args);
    EXPECT_EQ(started.status, 0) << started.err;
    return first_line(started.out);
  }

  std::optional<SessionInfo> session(const std::string& id) {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    if (!sessions) return std::nullopt;
    const auto found = std::ranges::find(*sessions, id, &SessionInfo::session);
    if (found == sessions->end()) return std::nullopt;
    return *found;
  }
  void wait_for_samples(const std::string& id, std::uint64_t count) {
    EXPECT_TRUE(eventually([&] {
      const auto info = session(id);
      return info && info->samples >= count;
    })) << "samples of "
        << id;
  }

  // Every profile of a result is whole.
  static void expect_whole(const std::filesystem::path& directory) {
    const SessionSummary summary = read_summary(directory);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_THAT(summary.profiles, ::testing::Not(::testing::IsEmpty()));
    for (const ProfileSummary& profile : summary.profiles) {
      const Result<Profile> read = decode_gperftools(slurp(directory / profile.path));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->samples(), profile.samples);
    }
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  Process busy_{{workload("shares"), "600"}};
  std::string busy_pid_ = std::to_string(busy_.pid());
};

}  // namespace profd::e2e
