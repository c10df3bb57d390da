// Users who ask for a long profile and go away, or wait when profd ends: nothing waits for them.

#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

constexpr std::size_t kProfilesOfUser = 4;
constexpr const char* kLongProfile =
    "GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nHost: profd\r\n\r\n";

class WaitingClientsTest : public ::testing::Test {
 protected:
  std::unique_ptr<RawClient> ask_for_profile() {
    auto client = std::make_unique<RawClient>();
    client->connect_as(daemon_.socket(), kSomebody, kSomebody);
    EXPECT_TRUE(client->send(kLongProfile));
    return client;
  }

  // Also those that have ended and whose result is being written.
  std::size_t sessions() {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    return sessions ? sessions->size() : SIZE_MAX;
  }

  Daemon daemon_;
};

TEST_F(WaitingClientsTest, HoldNoSessionsOnceTheyAreGone) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (std::size_t i = 0; i < kProfilesOfUser; ++i) clients.push_back(ask_for_profile());
    EXPECT_TRUE(eventually([&] { return sessions() == kProfilesOfUser; })) << round;
    clients.clear();
    EXPECT_TRUE(eventually([&] { return sessions() == 0; })) << round;
  }
  EXPECT_TRUE(eventually([&] { return daemon_.status().results_bytes == 0; }));
}

TEST_F(WaitingClientsTest, DoNotDelayTheEndOfProfd) {
  auto waiting = ask_for_profile();
  auto gone = ask_for_profile();
  EXPECT_TRUE(eventually([&] { return sessions() == 2; }));
  gone.reset();
  EXPECT_EQ(daemon_.stop(SIGTERM).status, 0);
  const RawAnswer answer = waiting->receive();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.body.starts_with("\x1f\x8b")) << "the profile until then";
}

}  // namespace
}  // namespace profd::e2e
