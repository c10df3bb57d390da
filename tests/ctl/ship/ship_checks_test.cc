// What profctl doctor says of endpoints.

#include "ctl/ship/ship_checks.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/ship_status.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Gives one answer.
class OneReply final : public PushClient {
 public:
  Result<void> connect() override {
    if (connected) return {};
    return connected.error();
  }
  PushReply push(const PushMessage& message) override {
    EXPECT_EQ(message.body, engine->empty_request().body);
    return reply;
  }

  Result<void> connected;
  std::unique_ptr<Engine> engine = make_pyroscope_engine({});
  PushReply reply;
};

CheckPoint check_with(OneReply& client) {
  HttpEndpoint endpoint;
  endpoint.name = "a";
  endpoint.url = "http://h";
  return check_endpoint(endpoint, *client.engine, client);
}

PushReply reply_with(unsigned status, const std::string& type = "application/json",
                     const std::string& body = R"({"message":"why"})") {
  PushReply reply;
  reply.reached = PushReply::Reached::kAnswered;
  reply.status = status;
  reply.content_type = type;
  reply.body = body;
  return reply;
}

TEST(ShipChecksTest, AnAnswerSaysWhetherTheCredentialsAreAccepted) {
  struct Case {
    PushReply reply;
    CheckState state;
    const char* message;
  };
  PushReply silent;
  silent.reached = PushReply::Reached::kNoAnswer;
  silent.error = fail(ErrorCode::kTimeout, "it took too long");
  for (const Case& one :
       std::vector<Case>{{reply_with(200, "application/proto"), CheckState::kOk, "takes requests"},
                         {reply_with(200, "text/plain"), CheckState::kFix, "no Pyroscope"},
                         {reply_with(400), CheckState::kUnknown, "is not known"},
                         {reply_with(400, "text/plain"), CheckState::kUnknown, "is not known"},
                         {reply_with(401), CheckState::kFix, "refuses the credentials: "},
                         {reply_with(403), CheckState::kFix, "refuses the credentials: "},
                         {reply_with(401, "text/html"), CheckState::kFix, "refuses the cred"},
                         {reply_with(404), CheckState::kFix, "can be reached; "},
                         {reply_with(302), CheckState::kFix, "redirects"},
                         {reply_with(200, "text/html"), CheckState::kFix, "no Pyroscope"},
                         {reply_with(429), CheckState::kUnknown, "is not known"},
                         {reply_with(502), CheckState::kFix, "can be reached; "},
                         {reply_with(503), CheckState::kFix, "can be reached; "},
                         {silent, CheckState::kFix, "does not answer: it took too long"}}) {
    OneReply client;
    client.reply = one.reply;
    const CheckPoint point = check_with(client);
    EXPECT_EQ(point.name, "ship/a");
    EXPECT_EQ(point.state, one.state) << one.reply.status << point.message;
    EXPECT_THAT(point.message, HasSubstr(one.message));
  }
}

// Fails where any refusal counts as accepted credentials.
TEST(ShipChecksTest, ARefusalForWantOfProfilesSaysThatTheCredentialsAreAccepted) {
  OneReply client;
  client.reply = reply_with(400, "application/json",
                            R"({"code":"invalid_argument","message":"no profiles received"})");
  CheckPoint point = check_with(client);
  EXPECT_EQ(point.state, CheckState::kOk) << point.message;
  client.reply = reply_with(400, "application/json", R"({"message":"invalid API key"})");
  point = check_with(client);
  EXPECT_EQ(point.state, CheckState::kUnknown);
  EXPECT_THAT(point.message, HasSubstr("answered 400: invalid API key"));
  EXPECT_THAT(point.hint, HasSubstr("credentials"));

  // Pyroscope as a receiver of OTLP. Others take the request.
  client.engine = make_otlp_engine({});
  client.reply = reply_with(400, "text/plain", "missing profile metadata dictionary");
  point = check_with(client);
  EXPECT_EQ(point.state, CheckState::kOk) << point.message;
  client.reply = reply_with(200, "application/x-protobuf", "");
  point = check_with(client);
  EXPECT_EQ(point.state, CheckState::kOk) << point.message;

  client.engine = make_parca_engine();
  client.reply = reply_with(400, "application/json", R"({"message":""})");
  EXPECT_EQ(check_with(client).state, CheckState::kUnknown);
  client.reply = reply_with(200, "application/json", "{}");
  EXPECT_EQ(check_with(client).state, CheckState::kOk);
}

TEST(ShipChecksTest, AnEndpointThatIsAwayIsUnreachable) {
  OneReply client;
  client.connected = fail(ErrorCode::kUnavailable, "could not connect");
  const CheckPoint point = check_with(client);
  EXPECT_EQ(point.state, CheckState::kFix);
  EXPECT_EQ(point.message, "unreachable: could not connect");
  EXPECT_NE(point.hint, "");
  client.connected = fail(ErrorCode::kPermissionDenied, "could not read the token");
  EXPECT_EQ(check_with(client).state, CheckState::kUnknown);
}

// A port of this host where nothing listens.
std::uint16_t closed_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket.get(), generic, size), 0);
  EXPECT_EQ(::getsockname(socket.get(), generic, &size), 0);
  return ntohs(address.sin_port);
}

class ShipFilesTest : public testing::Test {
 protected:
  ShipFilesTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "ship-checks-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ShipFilesTest() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] CheckReport check() const {
    return check_ship(directory_ / "ship.toml", directory_ / "run");
  }
  void configure(const std::string& text) const { std::ofstream(directory_ / "ship.toml") << text; }

  std::filesystem::path directory_;
};

TEST_F(ShipFilesTest, WithoutAConfigurationNothingIsChecked) { EXPECT_THAT(check(), IsEmpty()); }

TEST_F(ShipFilesTest, AnInvalidConfigurationIsNamedWithItsPlace) {
  configure("[[pyroscope]]\nname = \"a\"\nurl = \"nonsense\"\n");
  ASSERT_THAT(check(), SizeIs(1));
  EXPECT_EQ(check()[0].state, CheckState::kFix);
  EXPECT_THAT(check()[0].message, HasSubstr("ship.toml:3:7: url must"));
}

TEST_F(ShipFilesTest, ProcessAndEndpointsAreChecked) {
  configure("[[pyroscope]]\nname = \"a\"\nurl = \"http://127.0.0.1:" +
            std::to_string(closed_port()) + "\"\n");
  CheckReport report = check();
  ASSERT_THAT(report, SizeIs(2));
  EXPECT_EQ(report[0].name, "ship");
  EXPECT_EQ(report[0].state, CheckState::kFix);
  EXPECT_THAT(report[0].message, HasSubstr("does not run"));
  EXPECT_EQ(report[1].name, "ship/a");
  EXPECT_EQ(report[1].state, CheckState::kFix);
  EXPECT_THAT(report[1].message, HasSubstr("unreachable: "));

  ShipStatusWriter writer(directory_ / "run");
  EndpointReport endpoint;
  endpoint.name = "a";
  ASSERT_TRUE(writer.write({endpoint}));
  EXPECT_EQ(check()[0].state, CheckState::kOk) << check()[0].message;
  endpoint.failing_since = "2026-01-02T12:00:00Z";
  endpoint.last_error = "refused";
  ASSERT_TRUE(writer.write({endpoint}));
  report = check();
  ASSERT_THAT(report, SizeIs(2));
  EXPECT_EQ(report[0].state, CheckState::kOk);
  EXPECT_EQ(report[0].message, "profctl ship runs");
  EXPECT_THAT(report[1].message, HasSubstr("; profctl ship fails there since 2026-01-0"));
}

EndpointReport failing_endpoint(const std::string& name, const std::string& error) {
  EndpointReport report;
  report.name = name;
  report.failing_since = "2026-01-02T12:00:00Z";
  report.last_error = error;
  return report;
}

// Fails where one failure has two points, or one that is not seen from here has none.
TEST(ShipFailuresTest, EachFailureIsSaidOnceWithWhatIsToBeDone) {
  ::setenv("TZ", "XST-5", 1);  // five hours before UTC
  ::tzset();
  CheckReport report = {
      {.name = "ship", .state = CheckState::kOk, .message = "profctl ship runs"},
      {.name = "ship/a", .state = CheckState::kFix, .message = "away", .hint = "go there"},
      {.name = "ship/b", .state = CheckState::kOk, .message = "it works"},
      {.name = "ship/c", .state = CheckState::kOk, .message = "it works"},
      {.name = "ship/d", .state = CheckState::kUnknown, .message = "may not read"}};
  EndpointReport well;
  well.name = "c";
  add_failures({failing_endpoint("a", "away"), failing_endpoint("b", "no space"), well,
                failing_endpoint("d", "no file"), failing_endpoint("e", "away")},
               report);
  ::unsetenv("TZ");
  ::tzset();
  ASSERT_THAT(report, SizeIs(6));
  EXPECT_EQ(report[0].state, CheckState::kOk);
  EXPECT_EQ(report[1].message, "away; profctl ship fails there since 2026-01-02 17:00:00");
  EXPECT_EQ(report[1].hint, "go there");
  EXPECT_EQ(report[2].message,
            "profctl ship fails since 2026-01-02 17:00:00: no space; from here, it works");
  EXPECT_EQ(report[3].state, CheckState::kOk);
  EXPECT_EQ(report[4].message,
            "profctl ship fails since 2026-01-02 17:00:00: no file; from here, may not read");
  EXPECT_EQ(report[5].name, "ship/e");
  EXPECT_EQ(report[5].message, "profctl ship fails since 2026-01-02 17:00:00: away");
  for (const std::size_t i : {1U, 2U, 4U, 5U}) {
    EXPECT_EQ(report[i].state, CheckState::kFix) << i;
    EXPECT_NE(report[i].hint, "") << i;
  }
}

TEST(ShipChecksTest, WhatDoesNotAnswerIsNamedOnceWithWhatIsToBeDone) {
  OneReply client;
  client.reply.reached = PushReply::Reached::kNoAnswer;
  client.reply.error = fail(ErrorCode::kTimeout, "no answer from http://h: it took too long");
  const CheckPoint silent = check_with(client);
  EXPECT_EQ(silent.message, "no answer from http://h: it took too long");
  EXPECT_THAT(silent.hint, HasSubstr("log of the endpoint"));
  for (const unsigned status : {500U, 503U}) {
    client.reply = reply_with(status);
    EXPECT_THAT(check_with(client).hint, HasSubstr("log of the endpoint")) << status;
  }
}

}  // namespace
}  // namespace profd
