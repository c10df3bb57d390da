#include "ctl/ship/send_turn.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""h;

const SendTurn::Time kTurnNoon = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 12h;
const SendTurn::Time kTurnEnd = kTurnNoon + 60s;

// Those of tests/bench/fleet_simulation.py.
TEST(SendTurnTest, APhaseIsThatOfTheNameAlone) {
  EXPECT_DOUBLE_EQ(send_phase(""), 0.20634451574987855);
  EXPECT_DOUBLE_EQ(send_phase("web-1"), 0.6921805274807157);
  EXPECT_DOUBLE_EQ(send_phase("host-0"), 0.4836057145211442);
  EXPECT_DOUBLE_EQ(send_phase("node-17.example.org"), 0.8003166864605059);
}

TEST(SendTurnTest, AWindowWaitsForItsTurn) {
  const SendTurn turn = send_turn(kTurnNoon, 60s, 0.25);
  EXPECT_EQ(turn.wait(kTurnEnd), 15s);
  EXPECT_EQ(turn.wait(kTurnEnd + 14s), 1s);
  EXPECT_EQ(turn.wait(kTurnEnd + 15s), 0s);
  EXPECT_EQ(turn.wait(kTurnEnd + 1h), 0s);
}

TEST(SendTurnTest, ATurnIsNeverFarAway) {
  EXPECT_EQ(send_turn(kTurnNoon, 60s, 0.25).wait(kTurnNoon - 1h), 60s);
  EXPECT_EQ(send_turn(kTurnNoon, 24h, 0.5).wait(kTurnNoon), 10min);
  EXPECT_EQ(send_turn(kTurnNoon, -1s, 0.5).wait(kTurnNoon), 0s);
}

TEST(SendTurnTest, TheProfilesOfAWindowAreSpreadUnlessItIsLate) {
  const SendTurn turn = send_turn(kTurnNoon, 60s, 0.25);
  EXPECT_EQ(turn.pause(kTurnEnd + 15s, 20), 300ms);
  EXPECT_EQ(turn.pause(kTurnEnd + 15s, 0), 0ms);
  EXPECT_EQ(turn.pause(kTurnEnd + 61s, 20), 0ms);
}

// The requests of 10,000 hosts, each with 20 profiles, by second. That of the bytes is in
// tests/bench/fleet_simulation.py.
TEST(SendTurnTest, TheLoadOfAFleetIsLevel) {
  constexpr int kHosts = 10'000;
  constexpr int kProfiles = 20;
  constexpr int kSeconds = 60;
  std::array<int, kSeconds> requests{};
  for (int host = 0; host < kHosts; ++host) {
    const double phase = send_phase("host-" + std::to_string(host));
    const SendTurn turn = send_turn(kTurnNoon, std::chrono::seconds(kSeconds), phase);
    SendTurn::Time at = kTurnEnd + turn.wait(kTurnEnd);
    const auto pause = turn.pause(at, kProfiles);
    for (int i = 0; i < kProfiles; ++i, at += pause) {
      const auto second = std::chrono::floor<std::chrono::seconds>(at - kTurnEnd).count();
      ++requests.at(static_cast<std::size_t>(second % kSeconds));
    }
  }
  const int peak = *std::ranges::max_element(requests);
  EXPECT_LE(peak, 1.2 * kHosts * kProfiles / kSeconds);
}

}  // namespace
}  // namespace profd
