// Limits of the control server's clients: time, connections, descriptors.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/unique_fd.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/daemon/control/running_server.h"
#include "tests/daemon/control/server_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using test::ControlServerTest;
using test::error_of;
using test::kSomebody;
using test::kSomeGroup;
using testing::ElementsAre;

std::string refusal_of(uid_t uid, const std::string& reason) {
  return std::to_string(uid) + " " + reason;
}

TEST_F(ControlServerTest, ASlowRequestGets408AlsoWhenItArrivesByteByByte) {
  ControlLimits limits = patient();
  limits.http.request = 2s;
  const RunningServer server(service_, limits);
  RawClient stuck(server.socket());
  stuck.send("GET /v1/status HTTP/1.1\r\n");
  RawClient dripping(server.socket());
  std::atomic<bool> enough = false;
  std::thread drip([&] {
    while (!enough && dripping.send("x")) std::this_thread::sleep_for(20ms);
  });
  const RawAnswer dripped = dripping.receive();
  enough = true;
  drip.join();
  EXPECT_EQ(dripped.status, 408);
  EXPECT_EQ(error_of(dripped).code, ErrorCode::kTimeout);
  EXPECT_EQ(stuck.receive().status, 408);
  EXPECT_TRUE(stuck.is_closed());
}

TEST_F(ControlServerTest, AnIdleConnectionIsClosedWithoutAnAnswer) {
  ControlLimits limits = patient();
  limits.http.request = 2s;
  const RunningServer server(service_, limits);
  RawClient polite(server.socket());
  EXPECT_EQ(polite.ask("GET", "/v1/status").status, 200);
  RawClient client(server.socket());
  EXPECT_TRUE(client.is_closed());
  EXPECT_TRUE(polite.is_closed());
}

TEST_F(ControlServerTest, AClientThatDoesNotReadIsDisconnectedAndOthersAreAnswered) {
  ControlLimits limits = patient();
  limits.http.stall = 1s;
  service_.files["big.1.prof"] = std::string(8'000'000, 'x');
  RunningServer server(service_, limits);
  RawClient deaf(server.socket());
  deaf.send("GET /v1/results/5f2c01ab/files/big.1.prof HTTP/1.1\r\n\r\n");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(RawClient(server.socket()).ask("GET", "/v1/status").status, 200);
  }
  EXPECT_TRUE(deaf.is_disconnected());
  EXPECT_LT(deaf.receive().body.size(), 8'000'000u);
  server.stop();
  EXPECT_THAT(service_.refusals, ElementsAre("0 connections.slow"));
}

TEST_F(ControlServerTest, AUserWhoDoesNotReadItsLargeAnswersGets503AndOthersAreAnswered) {
  constexpr std::string_view kStop = "/v1/sessions/5f2c01ab/stop";
  service_.result.files.resize(8000);
  for (ResultFile& file : service_.result.files) file.path = std::string(100, 'x');
  RunningServer server(service_, patient());
  std::vector<RawClient> deaf(16);
  for (RawClient& client : deaf) {
    client.connect_as(server.socket(), kSomebody, kSomeGroup);
    client.send("POST " + std::string(kStop) + " HTTP/1.1\r\n\r\n");
  }
  for (std::size_t asked = 0; asked < deaf.size(); std::this_thread::sleep_for(1ms)) {
    server.run([&] { asked = service_.calls.size(); });
  }
  RawClient next;
  next.connect_as(server.socket(), kSomebody, kSomeGroup);
  const RawAnswer refused = next.ask("POST", kStop);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused).code, ErrorCode::kBusy);
  EXPECT_EQ(next.ask("GET", "/v1/status").status, 200);
  RawClient other;
  other.connect_as(server.socket(), kSomebody + 1, kSomeGroup);
  EXPECT_EQ(other.ask("POST", kStop).status, 200);
  EXPECT_EQ(RawClient(server.socket()).ask("POST", kStop).status, 200);
  std::size_t bytes = 0;
  for (RawClient& client : deaf) bytes += client.receive().body.size();
  EXPECT_GT(bytes, 2'000'000U);
  EXPECT_LT(bytes, AnswerBudget::kMaxBytesOfUser + deaf.size() * 1000);
  EXPECT_EQ(next.ask("POST", kStop).status, 200);
  server.stop();
  EXPECT_THAT(service_.refusals, testing::Contains(refusal_of(kSomebody, "request: busy")));
}

TEST_F(ControlServerTest, EachUserHasALimitOfConnectionsAndTheNextGets503) {
  ControlLimits limits = patient();
  limits.connections_per_uid = 3;
  RunningServer server(service_, limits);
  std::vector<RawClient> held(3);
  for (RawClient& client : held) {
    client.connect_as(server.socket(), kSomebody, kSomeGroup);
    EXPECT_EQ(client.ask("GET", "/v1/status").status, 200);
  }
  RawClient next;
  next.connect_as(server.socket(), kSomebody, kSomeGroup);
  const RawAnswer refused = next.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused).code, ErrorCode::kBusy);
  EXPECT_TRUE(next.is_closed());
  RawClient other;
  other.connect_as(server.socket(), kSomebody + 1, kSomeGroup);
  EXPECT_EQ(other.ask("GET", "/v1/status").status, 200);
  for (int i = 0; i < 5; ++i) {
    held.emplace_back(server.socket());  // root has no limit
    EXPECT_EQ(held.back().ask("GET", "/v1/status").status, 200);
  }
  server.stop();
  EXPECT_THAT(service_.refusals, ElementsAre(refusal_of(kSomebody, "connections.refused")));
}

TEST_F(ControlServerTest, AConnectionThatEndsFreesItsPlace) {
  ControlLimits limits = patient();
  limits.connections_per_uid = 1;
  const RunningServer server(service_, limits);
  for (int i = 0; i < 20; ++i) {
    RawClient client;
    client.connect_as(server.socket(), kSomebody, kSomeGroup);
    client.send("GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(client.receive().status, 200);
    EXPECT_TRUE(client.is_closed());
  }
}

TEST_F(ControlServerTest, RootIsAnsweredWhenOthersHaveAllOtherConnections) {
  ControlLimits limits = patient();
  limits.connections = 6;
  limits.reserved_for_root = 2;
  const RunningServer server(service_, limits);
  std::vector<RawClient> held(4);
  uid_t uid = kSomebody;
  for (RawClient& client : held) {
    client.connect_as(server.socket(), uid++, kSomeGroup);
    EXPECT_EQ(client.ask("GET", "/v1/status").status, 200);
  }
  RawClient next;
  next.connect_as(server.socket(), uid, kSomeGroup);
  EXPECT_EQ(next.receive().status, 503);
  RawClient root(server.socket());
  EXPECT_EQ(root.ask("GET", "/v1/status").status, 200);
}

// Uses all file descriptors of the process while it lives.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    ::getrlimit(RLIMIT_NOFILE, &former_);
    rlimit low = former_;
    low.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (UniqueFd fd(::dup(0)); fd.valid(); fd.reset(::dup(0))) taken_.push_back(std::move(fd));
  }
  NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
  NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;
  ~NoDescriptorsLeft() { ::setrlimit(RLIMIT_NOFILE, &former_); }

  [[nodiscard]] std::size_t taken() const { return taken_.size(); }

 private:
  rlimit former_{};
  std::vector<UniqueFd> taken_;
};

TEST_F(ControlServerTest, WithoutFreeDescriptorsANewClientWaitsAndIsAnsweredLater) {
  const RunningServer server(service_, patient());
  RawClient before(server.socket());
  EXPECT_EQ(before.ask("GET", "/v1/status").status, 200);
  RawClient client;
  {
    const NoDescriptorsLeft none;
    ASSERT_GT(none.taken(), 0u);
    client.connect(server.socket());
    client.send("GET /v1/status HTTP/1.1\r\n\r\n");
    EXPECT_EQ(before.ask("GET", "/v1/status").status, 200);
  }
  EXPECT_EQ(client.receive().status, 200);
}

}  // namespace
}  // namespace profd
