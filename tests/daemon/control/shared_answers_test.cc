// Who gets an answer about the daemon's state that was made for another caller.

#include "daemon/control/shared_answers.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "formats/api/status_info.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/daemon/control/running_server.h"
#include "tests/daemon/control/server_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using test::kSomebody;
using test::kSomeGroup;

TEST(SharedAnswersTest, EachIsMadeOnceUntilItIsTooOld) {
  int made = 0;
  const auto make = [&made] { return std::to_string(++made); };
  SharedAnswers kept(1h);
  EXPECT_EQ(kept.find_or_make("status", make), "1");
  EXPECT_EQ(kept.find_or_make("status", make), "1");
  EXPECT_EQ(kept.find_or_make("metrics", make), "2");
  EXPECT_EQ(kept.find_or_make("status", make), "1");
  SharedAnswers not_kept(0ms);
  EXPECT_EQ(not_kept.find_or_make("status", make), "3");
  EXPECT_EQ(not_kept.find_or_make("status", make), "4");
}

class SharedStatusTest : public test::ControlServerTest {
 protected:
  static ControlLimits keeping_answers(std::chrono::milliseconds time) {
    ControlLimits limits = patient();
    limits.shared_answers = time;
    return limits;
  }

  RawAnswer ask_as(uid_t uid, const RunningServer& server, const std::string& path) {
    RawClient client;
    client.connect_as(server.socket(), uid, kSomeGroup);
    return client.ask("GET", path);
  }
  [[nodiscard]] auto times_made() const { return std::ranges::count(service_.calls, "status"); }
};

TEST_F(SharedStatusTest, UnprivilegedCallersShareOneAnswerForEachRoute) {
  const RunningServer server(service_, keeping_answers(1h));
  const std::string first = ask_as(kSomebody, server, "/v1/status").body;
  for (int i = 0; i < 20; ++i) {
    const uid_t user = kSomebody + static_cast<uid_t>(i) % 3;
    EXPECT_EQ(ask_as(user, server, "/v1/status").body, first);
    EXPECT_EQ(ask_as(user, server, "/metrics").status, 200);
  }
  EXPECT_EQ(times_made(), 2);
}

TEST_F(SharedStatusTest, PrivilegedCallersGetTheStateOfTheMoment) {
  const RunningServer server(service_, keeping_answers(1h));
  EXPECT_EQ(ask_as(kSomebody, server, "/v1/status").status, 200);
  for (std::uint64_t sessions = 1; sessions <= 3; ++sessions) {
    service_.state.sessions = sessions;
    const auto status = parse_status_info(RawClient(server.socket()).ask("GET", "/v1/status").body);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(status->sessions, sessions);
  }
  EXPECT_EQ(times_made(), 4);
}

// Only privileged callers see which user was refused what.
TEST_F(SharedStatusTest, AnAnswerToRootIsGivenToNoUser) {
  const RunningServer server(service_, keeping_answers(1h));
  service_.state.users = {{.uid = 1, .refused = {{"secret", 1}}}};
  EXPECT_THAT(RawClient(server.socket()).ask("GET", "/v1/status").body,
              testing::HasSubstr("secret"));
  service_.state.users.clear();
  EXPECT_THAT(ask_as(kSomebody, server, "/v1/status").body,
              testing::Not(testing::HasSubstr("secret")));
}

TEST_F(SharedStatusTest, AnOldAnswerIsMadeAgain) {
  const RunningServer server(service_, keeping_answers(0ms));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask_as(kSomebody, server, "/v1/status").status, 200);
  EXPECT_EQ(times_made(), 3);
}

}  // namespace
}  // namespace profd
