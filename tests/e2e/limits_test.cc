// What one user without rights may take of the daemon, and what root is left meanwhile.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "formats/api/error_json.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
using std::chrono_literals::operator""s;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kConnectionsOfUser = 128;

class LimitsTest : public ::testing::Test {
 protected:
  using Clients = std::vector<std::unique_ptr<RawClient>>;

  std::unique_ptr<RawClient> connect_as(uid_t uid) const {
    auto client = std::make_unique<RawClient>();
    client->connect_as(daemon_.socket(), uid, uid);
    return client;
  }

  Clients connect_many(uid_t uid, std::size_t count) const {
    Clients clients;
    while (clients.size() < count) clients.push_back(connect_as(uid));
    return clients;
  }

  // How long root waits for status, each on a connection of its own.
  std::vector<double> time_root(std::size_t requests) const {
    std::vector<double> times;
    for (std::size_t i = 0; i < requests; ++i) {
      const auto began = Clock::now();
      RawClient root(daemon_.socket());
      EXPECT_EQ(root.ask("GET", "/v1/status").status, 200);
      times.push_back(Milliseconds(Clock::now() - began).count());
    }
    std::ranges::sort(times);
    return times;
  }

  Daemon daemon_;
};

bool has_answer(const RawClient& client) {
  pollfd answer{.fd = client.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&answer, 1, 0) == 1;
}

TEST_F(LimitsTest, AUserHas128ConnectionsAndEachFurtherOneIsToldSo) {
  const Clients clients = connect_many(kSomebody, 200);
  // Those that are turned away are, unasked; in the order in which they came.
  ASSERT_TRUE(eventually([&] { return has_answer(*clients.back()); }));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(has_answer(*clients[i]), i >= kConnectionsOfUser) << i;
  }
  const RawAnswer refused = clients.back()->receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(parse_error(refused.body).code, ErrorCode::kBusy);
  EXPECT_TRUE(clients.back()->is_closed());
  EXPECT_EQ(clients.front()->ask("GET", "/v1/status").status, 200);
  const StatusInfo status = daemon_.status();
  EXPECT_EQ(status.connections.refused, 200 - kConnectionsOfUser);
  EXPECT_EQ(status.connections.open, kConnectionsOfUser + 1);
}

// A third says nothing, a third a byte now and then, a third asks for more than it reads.
TEST_F(LimitsTest, WhoIsSlowIsClosedAfterTenSecondsAndRootIsAnsweredMeanwhile) {
  const Clients clients = connect_many(kSomebody, kConnectionsOfUser);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: profd\r\n\r\n";
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i % 3 == 1) clients[i]->send("G");
    // As many as a socket takes: their answers fill both its directions up.
    for (int n = 0; i % 3 == 2 && n < 2000; ++n) {
      if (::send(clients[i]->fd(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        break;
    }
  }
  const auto began = Clock::now();
  std::vector<double> times = time_root(20);
  while (Clock::now() < began + 12s) {
    for (std::size_t i = 1; i < clients.size(); i += 3) {
      (void)::send(clients[i]->fd(), "E", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    const std::vector<double> more = time_root(5);
    times.insert(times.end(), more.begin(), more.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::ranges::sort(times);
  std::printf("root waited %.1f ms (median), %.1f ms (99 %%), %.1f ms at most, of %zu\n",
              times[times.size() / 2], times[times.size() * 99 / 100], times.back(), times.size());
  EXPECT_LE(times[times.size() / 2], 1000.0);
  EXPECT_LE(times.back(), 5000.0);
  // The connection that asks is one.
  EXPECT_TRUE(eventually([&] { return daemon_.status().connections.open == 1; }));
  EXPECT_GE(daemon_.status().connections.slow, kConnectionsOfUser / 3);
}

TEST_F(LimitsTest, ARequestThatIsTooLargeIsRefusedAndAnswersArePromptAgain) {
  const auto client = connect_as(kSomebody);
  client->send("POST /v1/sessions HTTP/1.1\r\nHost: profd\r\nContent-Length: 1048576\r\n\r\n");
  const RawAnswer answer = client->receive();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("65536"));
  EXPECT_EQ(connect_as(kSomebody)->ask("GET", "/v1/status").status, 200);
}

// Of kSomebody. Processes of other users run on the host too.
std::uint64_t times_refused(const StatusInfo& status, const std::string& reason) {
  const auto user = std::ranges::find(status.users, kSomebody, &StatusInfo::User::uid);
  if (user == status.users.end()) return 0;
  const auto counted = user->refused.find(reason);
  return counted == user->refused.end() ? 0 : counted->second;
}

TEST_F(LimitsTest, WhatAUserIsRefusedIsShownToRootAlone) {
  const auto client = connect_as(kSomebody);
  const std::string own = R"({"target":{"uids":[12345]}})";
  // Of a user at the limit, rights are not checked.
  EXPECT_EQ(client->ask("POST", "/v1/sessions", R"({"target":{"all":true}})").status, 403);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client->ask("POST", "/v1/sessions", own).status, 201);
  EXPECT_EQ(client->ask("POST", "/v1/sessions", own).status, 413);
  EXPECT_EQ(client->ask("POST", "/v1/sessions", own).status, 413);
  EXPECT_EQ(RawClient(daemon_.socket()).ask("POST", "/v1/sessions", "{").status, 400);
  const StatusInfo status = daemon_.status();
  EXPECT_EQ(times_refused(status, "POST /v1/sessions: too_large"), 2U);
  EXPECT_EQ(times_refused(status, "POST /v1/sessions: permission_denied"), 1U);
  EXPECT_EQ(times_refused(status, "POST /v1/sessions: malformed"), 0U) << "root's";
  const Ended shown = daemon_.profctl({"status"});
  EXPECT_THAT(shown.out, ContainsRegex("USER +WHAT +TIMES\n"));
  EXPECT_THAT(shown.out, ContainsRegex("POST /v1/sessions: too_large +2\n"));
  const RawAnswer other = client->ask("GET", "/v1/status");
  EXPECT_EQ(other.status, 200);
  EXPECT_THAT(other.body, Not(HasSubstr("\"users\"")));
}

// Runs a file that is no ELF file, and whose first instruction jumps to itself.
constexpr const char* kRunner = R"(
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
READ_EXEC, PRIVATE = 5, 2
file = os.open(sys.argv[1], os.O_RDONLY)
code = libc.mmap(None, ctypes.c_size_t(4096), READ_EXEC, PRIVATE, file, ctypes.c_long(0))
ctypes.CFUNCTYPE(None)(code)()
)";

TEST_F(LimitsTest, AFileWithoutAnUnwindTableCountsForItsUser) {
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  const std::filesystem::path code = directory.path() / "code";
  std::ofstream(code) << "\xeb\xfe" << std::string(4094, '\xcc');
  ASSERT_EQ(daemon_.profctl({"start", "-a", "-F", "499"}).status, 0);
  Process::Options as_user;
  as_user.uid = kSomebody;
  Process program({"/usr/bin/python3", "-c", kRunner, code}, as_user);
  EXPECT_TRUE(eventually([&] {
    return times_refused(daemon_.status(), "unwinding.tables.refused.malformed") != 0;
  })) << daemon_.profctl({"status"}).out;
}

}  // namespace
}  // namespace profd::e2e
