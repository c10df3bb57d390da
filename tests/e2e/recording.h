// The fixture of tests that record a command and look at what was written.

#pragma once

#include <filesystem>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"

namespace profd::e2e {

class RecordingTest : public ::testing::Test {
 protected:
  // Runs a command under `profctl record` and checks what holds for every recording.
  SessionSummary record(const Args& options, const Args& command,
                        const Process::Options& process = {}) {
    Args args{"record", "-o", output_};
    args.insert(args.end(), options.begin(), options.end());
    args.emplace_back("--");
    args.insert(args.end(), command.begin(), command.end());
    recorded_ = daemon_.profctl(args, process);
    EXPECT_EQ(recorded_.status, 0) << recorded_.err;
    const SessionSummary summary = read_summary(output_);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_EQ(daemon_.status().ledger.difference(), 0);
    return summary;
  }

  std::filesystem::path file(const ProfileSummary& profile) const { return output_ / profile.path; }

  Daemon daemon_;
  TemporaryDirectory directory_;
  std::filesystem::path output_ = directory_.path() / "out";
  Ended recorded_;
};

}  // namespace profd::e2e
