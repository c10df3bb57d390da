// The client with real sockets on 127.0.0.1, and endpoints that do what they should not.

#include "ctl/ship/transport/push_client.h"

#include <sys/eventfd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/base/errors.h"
#include "tests/ctl/ship/a_certificate.h"
#include "tests/ctl/ship/a_server.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using test::ACertificate;
using test::Peer;
using test::Server;
using test::ServerTls;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Reached = PushReply::Reached;

const std::string kStored = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

void answer_with(Peer& peer, const std::string& answer) {
  (void)peer.read_request();
  peer.write(answer);
}

// A server that stores one request after the other.
void store_all(Peer& peer) {
  while (!peer.read_request().empty()) peer.write(kStored);
}

PushMessage message_of(std::string body = "body") {
  PushMessage message;
  message.path = "/push";
  message.content_type = "application/proto";
  message.body = std::move(body);
  return message;
}

// No socket buffer has room for it.
PushMessage large_message() { return message_of(std::string(32 << 20, 'x')); }

class PushClientTest : public testing::Test {
 protected:
  PushClientTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "push-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    surroundings_.lookup = [this](const std::string&) -> Result<HostAddresses> {
      ++lookups_;
      return HostAddresses{"127.0.0.1"};
    };
    surroundings_.environment = [this](const char* name) { return environment_[name]; };
  }
  ~PushClientTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<PushClient> client_of(const std::string& url) {
    endpoint_.url = url;
    endpoint_.address = parse_http_url(url).value();
    return make_push_client(endpoint_, surroundings_);
  }
  PushReply push_once(const std::string& url, const PushMessage& message = message_of()) {
    return client_of(url)->push(message);
  }
  // What becomes of a request that a server of one connection gets.
  PushReply push_to(const Server::Flow& flow, const PushMessage& message = message_of()) {
    const Server server({flow});
    return push_once(server.url(), message);
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }

  std::filesystem::path directory_;
  HttpEndpoint endpoint_;
  PushSurroundings surroundings_;
  std::map<std::string, std::string> environment_;
  std::atomic<int> lookups_ = 0;
};

TEST_F(PushClientTest, ARequestHasWhatItsMessageHas) {
  std::vector<std::string> requests;
  const Server server({[&requests](Peer& peer) {
    for (int i = 0; i < 2; ++i) {
      requests.push_back(peer.read_request());
      peer.write(kStored);
    }
  }});
  const auto client = client_of(server.url() + "/a/");
  PushMessage message = message_of("1");
  message.headers = {{"X-Scope-OrgID", "t"}};
  EXPECT_EQ(client->push(message).status, 200U);
  message.body = "22";
  EXPECT_EQ(client->push(message).reached, Reached::kAnswered);
  server.await_ended(1);
  ASSERT_EQ(requests.size(), 2U);
  const std::string start = "POST /a/push HTTP/1.1\r\nHost: 127.0.0.1:" + server.port() +
                            "\r\nUser-Agent: profctl\r\nContent-Type: application/proto\r\n"
                            "X-Scope-OrgID: t\r\nContent-Length: ";
  EXPECT_EQ(requests[0], start + "1\r\n\r\n1");
  EXPECT_EQ(requests[1], start + "2\r\n\r\n22");
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(PushClientTest, ARedirectIsAnAnswerAndIsNotFollowed) {
  const Server other({});
  const PushReply reply = push_to([&other](Peer& peer) {
    answer_with(peer, "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + other.url() +
                          "/push\r\nContent-Length: 0\r\n\r\n");
  });
  EXPECT_EQ(reply.status, 307U);
  const PushOutcome outcome = classify(reply);
  EXPECT_EQ(outcome.kind, PushOutcome::Kind::kLater);
  EXPECT_THAT(outcome.error.message, HasSubstr("redirects to " + other.url()));
  EXPECT_EQ(other.connections(), 0);
}

TEST_F(PushClientTest, APageIsAnAnswerThatStoresNothing) {
  const PushReply reply = push_to([](Peer& peer) {
    answer_with(peer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>");
  });
  EXPECT_EQ(reply.body, "<html>");
  EXPECT_EQ(classify(reply).kind, PushOutcome::Kind::kLater);
}

TEST_F(PushClientTest, OfAHugeAnswerTheBeginningIsRead) {
  for (const std::string header : {"Content-Length: 1073741824\r\n\r\n", "\r\n",
                                   "Transfer-Encoding: chunked\r\n\r\n40000000\r\n"}) {
    std::atomic<std::size_t> sent = 0;
    const Server server({[&](Peer& peer) {
                           answer_with(peer, "HTTP/1.1 503 Busy\r\n" + header);
                           const std::string block(1 << 20, 'x');
                           while (sent < 1024 && peer.write(block)) ++sent;
                         },
                         store_all});
    const auto client = client_of(server.url());
    const PushReply reply = client->push(message_of());
    EXPECT_EQ(reply.status, 503U);
    EXPECT_EQ(reply.body, std::string(4096, 'x'));
    EXPECT_EQ(client->push(message_of()).status, 200U);
    EXPECT_EQ(server.connections(), 2);
    EXPECT_LT(sent, 64U) << header;
  }
}

TEST_F(PushClientTest, AnAnswerWithoutEndIsNone) {
  for (const char* start : {"HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 "}) {
    const PushReply reply = push_to([start](Peer& peer) {
      answer_with(peer, start);
      while (peer.write("a: b\r\n")) continue;
    });
    EXPECT_EQ(reply.reached, Reached::kNoAnswer) << start;
  }
  const PushReply reply = push_to([](Peer& peer) {
    answer_with(peer, "HTTP/1.1 100 Continue\r\n\r\n");
    while (peer.write("HTTP/1.1 100 Continue\r\n\r\n")) continue;
  });
  EXPECT_EQ(reply.reached, Reached::kNoAnswer);
}

TEST_F(PushClientTest, AnEndlessLineOfAChunkIsNotKept) {
  const PushReply reply = push_to([](Peer& peer) {
    answer_with(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;");
    while (peer.write(std::string(1 << 16, 'x'))) continue;
  });
  EXPECT_EQ(reply.status, 200U);
}

TEST_F(PushClientTest, InterimAnswersAreNotTheAnswer) {
  const PushReply reply = push_to([](Peer& peer) {
    answer_with(
        peer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + kStored);
  });
  EXPECT_EQ(reply.status, 200U);
}

TEST_F(PushClientTest, WhatIsNoHttpMayHaveArrived) {
  const PushReply reply = push_to([](Peer& peer) { answer_with(peer, "SSH-2.0-x\r\n\r\n"); });
  EXPECT_EQ(reply.reached, Reached::kNoAnswer);
  EXPECT_THAT(reply.error.message, HasSubstr("does not answer by HTTP"));
  EXPECT_THAT(reply.error.hint, HasSubstr("url"));
}

TEST_F(PushClientTest, AServerThatSpeaksFirstGetsNoRequest) {
  std::promise<void> has_spoken;
  std::string received;
  {
    const Server server({[&](Peer& peer) {
      peer.write("SSH-2.0-x\r\n");
      has_spoken.set_value();
      received = peer.read();
    }});
    const auto client = client_of(server.url());
    ASSERT_TRUE(client->connect());
    has_spoken.get_future().wait();
    const PushReply reply = client->push(message_of());
    EXPECT_EQ(reply.reached, Reached::kNotSent);
    EXPECT_THAT(reply.error.message, HasSubstr("before it has a request"));
  }
  EXPECT_EQ(received, "");
}

TEST_F(PushClientTest, AnAnswerIsWaitedForUntilItsLimit) {
  surroundings_.limits.answer = milliseconds(300);
  for (const char* start : {"", "H", "HTTP/1.1 200 OK\r\n"}) {
    const PushReply reply = push_to([start](Peer& peer) {
      answer_with(peer, start);
      peer.await_close();
    });
    EXPECT_EQ(reply.reached, Reached::kNoAnswer);
    EXPECT_THAT(reply.error.message, HasSubstr("took too long"));
  }
}

TEST_F(PushClientTest, AnAnswerThatComesByteByByteIsBoundedInAll) {
  surroundings_.limits.answer = milliseconds(300);
  const PushReply reply = push_to([](Peer& peer) {
    answer_with(peer, "HTTP/1.1 200 OK\r\n");
    // Each byte comes within the limit, and all together do not.
    while (peer.write("x")) std::this_thread::sleep_for(milliseconds(20));
  });
  EXPECT_EQ(reply.reached, Reached::kNoAnswer);
  EXPECT_THAT(reply.error.message, HasSubstr("took too long"));
}

TEST_F(PushClientTest, AnEndpointThatDoesNotReadHasNotTheWhole) {
  surroundings_.limits.send = milliseconds(300);
  std::promise<void> is_done;
  const Server server({[&](Peer&) { is_done.get_future().wait(); }});
  const PushReply reply = push_once(server.url(), large_message());
  is_done.set_value();
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_THAT(reply.error.message, HasSubstr("took too long"));
}

TEST_F(PushClientTest, AConnectionThatEndsInTheBodyHasNotTheWhole) {
  const PushReply reply = push_to([](Peer& peer) { (void)peer.read_header(); }, large_message());
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_EQ(classify(reply).kind, PushOutcome::Kind::kLater);
}

TEST_F(PushClientTest, AConnectionThatEndsAfterTheBodyMayHaveIt) {
  for (const char* start : {"", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"}) {
    const PushReply reply = push_to([start](Peer& peer) { answer_with(peer, start); });
    EXPECT_EQ(reply.reached, Reached::kNoAnswer) << start;
    EXPECT_THAT(reply.error.message, HasSubstr("closed the connection")) << start;
    EXPECT_EQ(classify(reply).kind, PushOutcome::Kind::kUnknown);
  }
}

TEST_F(PushClientTest, AnAnswerThatEndsInItsBodyIsOne) {
  const PushReply reply = push_to(
      [](Peer& peer) { answer_with(peer, "HTTP/1.1 500 Error\r\nContent-Length: 5\r\n\r\nno"); });
  EXPECT_EQ(reply.reached, Reached::kAnswered);
  EXPECT_EQ(reply.status, 500U);
  EXPECT_EQ(reply.body, "no");
}

TEST_F(PushClientTest, ARefusalBeforeTheWholeBodyIsAnAnswer) {
  const auto push_to_early = [this](const std::string& status) {
    return push_to(
        [&status](Peer& peer) {
          (void)peer.read_header();
          peer.write("HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n");
        },
        large_message());
  };
  EXPECT_EQ(push_to_early("413 Too Large").status, 413U);
  // It can't have stored what it did not get.
  EXPECT_EQ(push_to_early("200 OK").reached, Reached::kNotSent);
}

TEST_F(PushClientTest, AnIdleConnectionThatTheEndpointHasClosedIsReplaced) {
  const Server server({[](Peer& peer) {
                         answer_with(peer, kStored);
                         peer.end();
                       },
                       store_all});
  const auto client = client_of(server.url());
  EXPECT_EQ(client->push(message_of()).status, 200U);
  server.await_ended(1);
  EXPECT_EQ(client->push(message_of()).status, 200U);
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(PushClientTest, AConnectionThatEndsBeforeItsFirstRequestIsReplaced) {
  const Server server({[](Peer& peer) { peer.end(); }, store_all});
  const auto client = client_of(server.url());
  ASSERT_TRUE(client->connect());
  server.await_ended(1);
  EXPECT_EQ(client->push(message_of()).status, 200U);
}

TEST_F(PushClientTest, BytesAfterAnAnswerAreNotTheNextAnswer) {
  const Server server({[](Peer& peer) {
                         answer_with(peer,
                                     kStored + "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
                         peer.await_close();
                       },
                       store_all});
  const auto client = client_of(server.url());
  EXPECT_EQ(client->push(message_of()).status, 200U);
  EXPECT_EQ(client->push(message_of()).status, 200U);
}

TEST_F(PushClientTest, AConnectionIsNotUsedAgainAfterItsIdleTime) {
  surroundings_.limits.idle = milliseconds(0);
  const Server server({store_all, store_all});
  const auto client = client_of(server.url());
  EXPECT_EQ(client->push(message_of()).status, 200U);
  EXPECT_EQ(client->push(message_of()).status, 200U);
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(PushClientTest, APortWithoutServerGetsNothing) {
  std::string url;
  {
    const Server server({});
    url = server.url();
  }
  const PushReply reply = push_once(url);
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_THAT(reply.error.message, StartsWith("could not connect to " + url + ": "));
}

TEST_F(PushClientTest, EachAddressOfAHostIsTried) {
  const Server server({store_all});
  surroundings_.lookup = [](const std::string&) -> Result<HostAddresses> {
    return HostAddresses{"::1", "127.0.0.2", "127.0.0.1"};
  };
  EXPECT_EQ(push_once(server.url("http", "profd.example")).status, 200U);
}

TEST_F(PushClientTest, LocalhostIsThisHostWithoutALookup) {
  const Server server({store_all});
  EXPECT_EQ(push_once(server.url("http", "localhost")).status, 200U);
  EXPECT_EQ(lookups_, 0);
}

TEST(BoundedLookupTest, AnAddressIsItsOwnResultAsItIs) {
  std::atomic<int> lookups = 0;
  BoundedLookup lookup([&lookups](const std::string&) -> Result<HostAddresses> {
    ++lookups;
    return fail(ErrorCode::kUnavailable, "none");
  });
  const WaitLimit limit{.until = std::chrono::steady_clock::now() + std::chrono::minutes(1)};
  for (const char* address : {"127.0.0.1", "::1", "0:0:0:0:0:0:0:1", "fe80::1%lo"}) {
    const auto found = lookup.find(address, limit);
    ASSERT_TRUE(found) << address;
    EXPECT_THAT(*found, testing::ElementsAre(address));
  }
  EXPECT_EQ(lookups, 0);
  for (const char* name : {"1.2.3.4.5", "::z", "127.0.0.1x", "a%lo"}) {
    EXPECT_FALSE(lookup.find(name, limit)) << name;
  }
  EXPECT_EQ(lookups, 4);
}

TEST(BoundedLookupTest, AScopeThatIsNoInterfaceIsAnErrorWithARemedy) {
  BoundedLookup lookup([](const std::string&) -> Result<HostAddresses> {
    ADD_FAILURE() << "an address is looked up";
    return HostAddresses{"127.0.0.1"};
  });
  const WaitLimit limit{.until = std::chrono::steady_clock::now() + std::chrono::minutes(1)};
  for (const char* address : {"::1%nosuch", "fe80::1%nosuch", "fe80::1%", "fe80::1%1x"}) {
    const auto found = lookup.find(address, limit);
    ASSERT_FALSE(found) << address;
    EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(found.error().message, HasSubstr(address));
    EXPECT_THAT(found.error().hint, HasSubstr("ip link"));
  }
  EXPECT_TRUE(lookup.find("fe80::1%1", limit)) << "the number of lo";
}

TEST_F(PushClientTest, ANameThatNobodyKnowsIsAnErrorWithARemedy) {
  surroundings_.lookup = look_up_host;
  const PushReply reply = push_once("http://no..name");
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_THAT(reply.error.message, HasSubstr("no address of no..name was found"));
  EXPECT_THAT(reply.error.hint, HasSubstr("DNS"));
  EXPECT_THAT(*look_up_host("localhost"), testing::Contains(testing::AnyOf("127.0.0.1", "::1")));
}

// A lookup that hangs until it is released, as a DNS server does that is away.
class HangingLookup {
 public:
  [[nodiscard]] HostLookup function() const {
    return [state = state_](const std::string&) -> Result<HostAddresses> {
      ++state->calls;
      state->released.wait();
      ++state->ended;
      return HostAddresses{"127.0.0.1"};
    };
  }
  void release() const {
    state_->release.set_value();
    while (state_->ended < state_->calls) std::this_thread::yield();
  }
  [[nodiscard]] int calls() const { return state_->calls; }

 private:
  struct State {
    std::promise<void> release;
    std::shared_future<void> released = release.get_future().share();
    std::atomic<int> calls = 0;
    std::atomic<int> ended = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST_F(PushClientTest, ALookupThatHangsIsAbandonedAtTheLimit) {
  const HangingLookup lookup;
  surroundings_.lookup = lookup.function();
  surroundings_.limits.connect = milliseconds(100);
  const Server server({store_all});
  {
    const auto abandoned = client_of(server.url("http", "profd.example"));
    EXPECT_EQ(abandoned->connect().error().code, ErrorCode::kTimeout);
    while (lookup.calls() == 0) std::this_thread::yield();
    EXPECT_THAT(abandoned->push(message_of()).error.message, HasSubstr("no DNS server answers"));
  }
  surroundings_.limits.connect = milliseconds(30'000);
  EXPECT_EQ(lookup.calls(), 1);  // one thread hangs, though connect() was called twice
  lookup.release();
  EXPECT_EQ(push_once(server.url("http", "profd.example")).status, 200U);
}

TEST_F(PushClientTest, ALookupThatHangsDoesNotDelayTheEnd) {
  const HangingLookup lookup;
  surroundings_.lookup = lookup.function();
  surroundings_.limits.connect = std::chrono::hours(1);
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  surroundings_.stop_fd = stop.get();
  EXPECT_FALSE(client_of("http://profd.example")->connect());
  while (lookup.calls() == 0) std::this_thread::yield();
  lookup.release();
}

TEST_F(PushClientTest, AConnectionThatIsBeingMadeDoesNotDelayTheEnd) {
  const Server server({[](Peer& peer) { peer.await_close(); }});
  surroundings_.limits.connect = std::chrono::hours(1);
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  surroundings_.stop_fd = stop.get();
  EXPECT_FALSE(client_of(server.url("https"))->connect());
}

TEST_F(PushClientTest, AServerOfTlsIsNamedWhereTheUrlHasHttp) {
  const PushReply reply = push_to([](Peer& peer) {
    (void)peer.read_request();
    peer.write(std::string("\x15\x03\x01\x00\x02\x02\x46", 7));
  });
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_THAT(reply.error.message, HasSubstr("speaks TLS"));
  EXPECT_THAT(reply.error.hint, HasSubstr("https"));
}

TEST_F(PushClientTest, ASecretIsReadForEachRequest) {
  std::vector<std::string> requests;
  const Server server({[&requests](Peer& peer) {
    for (std::string request = peer.read_request(); !request.empty();
         request = peer.read_request()) {
      requests.push_back(request);
      peer.write(kStored);
    }
  }});
  endpoint_.auth.bearer_token_file = file("token", "first\n");
  {
    const auto client = client_of(server.url());
    EXPECT_EQ(client->push(message_of()).status, 200U);
    (void)file("token", "other\r\n");
    EXPECT_EQ(client->push(message_of()).status, 200U);
    std::filesystem::remove(directory_ / "token");
    const PushReply reply = client->push(message_of());
    EXPECT_EQ(reply.reached, Reached::kNotSent);
    EXPECT_THAT(reply.error.message,
                AllOf(HasSubstr("token: No such file"), Not(HasSubstr("other"))));
    (void)file("token", "third");
    EXPECT_EQ(client->push(message_of()).status, 200U);
  }
  server.await_ended(1);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_THAT(requests[0], HasSubstr("\r\nAuthorization: Bearer first\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("\r\nAuthorization: Bearer other\r\n"));
  EXPECT_THAT(requests[2], HasSubstr("\r\nAuthorization: Bearer third\r\n"));
}

TEST_F(PushClientTest, ASecretThatComesBackIsNotPassedOn) {
  const std::string text = "invalid token t0ken-1 of user:open sesame";
  const Server proxy({[&text](Peer& peer) {
    answer_with(peer, "HTTP/1.1 401 No\r\nLocation: http://h/?token=t0ken-1\r\nContent-Length: " +
                          std::to_string(text.size()) + "\r\n\r\n" + text);
  }});
  endpoint_.auth.bearer_token_file = file("token", "t0ken-1\n");
  environment_["http_proxy"] = "http://user:open%20sesame@127.0.0.1:" + proxy.port();
  // The secret would go in clear text, which a configuration does not allow.
  const PushReply reply = push_once("http://profd.example:4040");
  EXPECT_EQ(reply.status, 401U);
  EXPECT_EQ(reply.body, "invalid token [secret] of user:[secret]");
  EXPECT_EQ(reply.location, "http://h/?token=[secret]");
}

TEST_F(PushClientTest, ARequestByAProxyNamesTheEndpoint) {
  std::string request;
  const Server proxy({[&request](Peer& peer) {
    request = peer.read_request();
    peer.write(kStored);
  }});
  environment_["http_proxy"] = "http://user:p%40ss@127.0.0.1:" + proxy.port();
  EXPECT_EQ(push_once("http://profd.example:4040/a").status, 200U);
  EXPECT_THAT(request, StartsWith("POST http://profd.example:4040/a/push HTTP/1.1\r\n"
                                  "Host: profd.example:4040\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n"));
  EXPECT_EQ(lookups_, 0);  // the proxy's matter
}

TEST_F(PushClientTest, AProxyThatRefusesIsNamed) {
  const Server proxy(
      {[](Peer& peer) { answer_with(peer, "HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno"); },
       [](Peer& peer) { answer_with(peer, "HTTP/1.1 502 No\r\n\r\n"); },
       [](Peer& peer) { (void)peer.read_request(); },
       [](Peer& peer) { answer_with(peer, "SSH-2.0-x\r\n\r\n"); }});
  environment_["https_proxy"] = "http://user:secret@127.0.0.1:" + proxy.port();
  for (const char* error : {"refuses the user (status 407)", "does not connect to it (status 502)",
                            "closed the connection", "does not answer by HTTP"}) {
    const PushReply reply = push_once("https://profd.example");
    EXPECT_EQ(reply.reached, Reached::kNotSent);
    EXPECT_THAT(reply.error.message, AllOf(HasSubstr("by the proxy 127.0.0.1:"), HasSubstr(error),
                                           Not(HasSubstr("secret"))));
  }
}

TEST_F(PushClientTest, AMalformedProxyIsAnErrorWithoutItsSecret) {
  environment_["https_proxy"] = "socks5://user:secret@h";
  const PushReply reply = push_once("https://profd.example");
  EXPECT_EQ(reply.reached, Reached::kNotSent);
  EXPECT_THAT(reply.error.message,
              AllOf(HasSubstr("variable https_proxy"), Not(HasSubstr("secret"))));
}

class TlsPushTest : public PushClientTest {
 protected:
  TlsPushTest() {
    ca_.write(directory_ / "ca.pem");
    endpoint_.tls.ca_file = directory_ / "ca.pem";
  }

  // A server with TLS that stores what it gets.
  static Server::Flow storing(std::shared_ptr<ServerTls> tls) {
    return [tls = std::move(tls)](Peer& peer) {
      if (peer.start_tls(*tls)) store_all(peer);
    };
  }
  static std::shared_ptr<ServerTls> tls_of(const ACertificate& own, int version = TLS1_3_VERSION,
                                           const ACertificate* clients = nullptr) {
    return std::make_shared<ServerTls>(own, version, clients);
  }
  // The error of a connection to a server with this certificate.
  Error error_of(const ACertificate& certificate, const std::string& host = "profd.example") {
    std::atomic<bool> was_accepted = false;
    Error error;
    {
      const Server server({[&](Peer& peer) {
        was_accepted = peer.start_tls(*tls_of(certificate)) && !peer.read().empty();
      }});
      const PushReply reply = push_once(server.url("https", host));
      EXPECT_EQ(reply.reached, Reached::kNotSent);
      error = reply.error;
      EXPECT_THAT(error.message, StartsWith("could not connect to " + server.url("https", host)));
    }
    EXPECT_FALSE(was_accepted);
    return error;
  }

  ACertificate ca_{""};
  ACertificate endpoint_certificate_{"DNS:profd.example,IP:127.0.0.1", &ca_};
};

TEST_F(TlsPushTest, AnEndpointIsReachedByItsNameAndByItsAddress) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    std::string name;
    const auto tls = tls_of(endpoint_certificate_, version);
    const Server server({[&](Peer& peer) {
                           ASSERT_TRUE(peer.start_tls(*tls));
                           name = peer.server_name();
                           store_all(peer);
                         },
                         storing(tls)});
    {
      const auto client = client_of(server.url("https", "profd.example"));
      ASSERT_TRUE(client->connect());
      // Tickets of the session have come meanwhile, and are no bytes of an answer.
      EXPECT_EQ(client->push(message_of()).status, 200U);
      EXPECT_EQ(client->push(message_of(std::string(1 << 20, 'x'))).status, 200U);
      EXPECT_EQ(server.connections(), 1);
    }
    server.await_ended(1);
    EXPECT_EQ(name, "profd.example");
    EXPECT_EQ(push_once(server.url("https")).status, 200U);
  }
}

TEST_F(TlsPushTest, TheCasOfTheHostAreKnown) {
  endpoint_.tls.ca_file.clear();
  EXPECT_THAT(error_of(endpoint_certificate_).message, HasSubstr("does not know"));
  ::setenv("SSL_CERT_FILE", (directory_ / "ca.pem").c_str(), 1);
  const Server server({storing(tls_of(endpoint_certificate_))});
  const PushReply reply = push_once(server.url("https", "profd.example"));
  ::unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(reply.status, 200U);
}

TEST_F(TlsPushTest, ACertificateThatDoesNotHoldIsRefusedWithARemedy) {
  const Error expired = error_of(ACertificate("DNS:profd.example", &ca_, -3600));
  EXPECT_THAT(expired.message, HasSubstr("the certificate of profd.example has expired"));
  EXPECT_THAT(expired.hint, HasSubstr("renew"));
  const Error own = error_of(ACertificate("DNS:profd.example"));
  EXPECT_THAT(own.message, HasSubstr("of a CA that this host does not know"));
  EXPECT_THAT(own.hint, HasSubstr("ca_file"));
  const ACertificate other_ca("");
  EXPECT_THAT(error_of(ACertificate("DNS:profd.example", &other_ca)).hint, HasSubstr("ca_file"));
  for (const char* names : {"DNS:other.example", "DNS:x.profd.example", "IP:127.0.0.1"}) {
    const Error error = error_of(ACertificate(names, &ca_));
    EXPECT_THAT(error.message, HasSubstr("is for another host")) << names;
    EXPECT_THAT(error.hint, HasSubstr("name")) << names;
  }
  EXPECT_THAT(error_of(ACertificate("DNS:127.0.0.1,IP:127.0.0.2", &ca_), "127.0.0.1").message,
              HasSubstr("is for another host"));
}

// Tools that are old give a certificate a common name alone.
TEST_F(TlsPushTest, ACertificateWithoutASubjectAltNameIsSaidToHaveNone) {
  const ACertificate nameless("", &ca_);
  const Error of_name = error_of(nameless);
  EXPECT_THAT(of_name.message, HasSubstr("it has no subjectAltName"));
  EXPECT_THAT(of_name.hint, HasSubstr("subjectAltName=DNS:profd.example"));
  const Error of_address = error_of(nameless, "127.0.0.1");
  EXPECT_THAT(of_address.message, HasSubstr("it has no subjectAltName"));
  EXPECT_THAT(of_address.hint, HasSubstr("subjectAltName=IP:127.0.0.1"));
  EXPECT_THAT(error_of(ACertificate("DNS:other.example", &ca_)).message,
              Not(HasSubstr("subjectAltName")));
  EXPECT_THAT(error_of(ACertificate("")).message, HasSubstr("does not know"))
      << "another reason comes first";
}

TEST_F(TlsPushTest, OtherServersAreRefusedWithARemedy) {
  const auto error_with = [this](const Server::Flow& flow) {
    const Server server({flow});
    const PushReply reply = push_once(server.url("https", "profd.example"));
    EXPECT_EQ(reply.reached, Reached::kNotSent);
    return reply.error;
  };
  const Error plain = error_with([](Peer& peer) {
    (void)peer.read();
    peer.write("HTTP/1.0 400 Bad Request\r\n\r\n");
  });
  EXPECT_THAT(plain.message, HasSubstr("does not speak TLS"));
  EXPECT_THAT(plain.hint, HasSubstr("http url"));
  EXPECT_THAT(error_with([](Peer& peer) { (void)peer.read(); }).message,
              HasSubstr("closed the connection in the handshake"));
  const auto old = tls_of(endpoint_certificate_, TLS1_1_VERSION);
  EXPECT_THAT(error_with([&old](Peer& peer) { peer.start_tls(*old); }).message,
              HasSubstr("no TLS of version 1.2"));
  surroundings_.limits.connect = milliseconds(300);
  EXPECT_THAT(error_with([](Peer& peer) { peer.await_close(); }).message,
              HasSubstr("took too long"));
}

TEST_F(TlsPushTest, AnEndWithoutNoticeIsAClosedConnection) {
  const auto tls = tls_of(endpoint_certificate_);
  for (const bool notifies : {false, true}) {
    const Server server({[&](Peer& peer) {
                           ASSERT_TRUE(peer.start_tls(*tls));
                           answer_with(peer, kStored);
                           if (notifies) peer.notify_close();
                           peer.end();
                         },
                         [&](Peer& peer) {
                           ASSERT_TRUE(peer.start_tls(*tls));
                           (void)peer.read_request();
                           if (notifies) peer.notify_close();
                         }});
    const auto client = client_of(server.url("https", "profd.example"));
    EXPECT_EQ(client->push(message_of()).status, 200U);
    server.await_ended(1);
    const PushReply reply = client->push(message_of());  // by another connection
    EXPECT_EQ(server.connections(), 2);
    EXPECT_EQ(reply.reached, Reached::kNoAnswer);
    EXPECT_THAT(reply.error.message, HasSubstr("closed the connection"));
  }
}

TEST_F(TlsPushTest, AConnectionThatEndsInABodyByTlsHasNotTheWhole) {
  const auto tls = tls_of(endpoint_certificate_);
  const Server server({[&](Peer& peer) {
    ASSERT_TRUE(peer.start_tls(*tls));
    (void)peer.read_header();
  }});
  EXPECT_EQ(push_once(server.url("https", "profd.example"), large_message()).reached,
            Reached::kNotSent);
}

TEST_F(TlsPushTest, AnEndpointThatWantsACertificateGetsItOrNothing) {
  const ACertificate own("DNS:host.example", &ca_);
  const ACertificate other_ca("");
  const ACertificate unknown("DNS:host.example", &other_ca);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto tls = tls_of(endpoint_certificate_, version, &ca_);
    const Server server({storing(tls), storing(tls), storing(tls)});
    const std::string url = server.url("https", "profd.example");
    endpoint_.tls.cert_file.clear();
    endpoint_.tls.key_file.clear();
    EXPECT_EQ(push_once(url).reached, Reached::kNotSent) << version;
    endpoint_.tls.cert_file = directory_ / "cert.pem";
    endpoint_.tls.key_file = directory_ / "key.pem";
    unknown.write(endpoint_.tls.cert_file);
    unknown.write_key(endpoint_.tls.key_file);
    const PushReply refused = push_once(url);
    EXPECT_EQ(refused.reached, Reached::kNotSent) << version;
    EXPECT_THAT(refused.error.message, HasSubstr("refuses the certificate of this host"));
    EXPECT_THAT(refused.error.hint, HasSubstr("cert_file"));
    own.write(endpoint_.tls.cert_file);
    own.write_key(endpoint_.tls.key_file);
    EXPECT_EQ(push_once(url).status, 200U) << version;
  }
}

TEST_F(TlsPushTest, FilesThatChangeAreReadAgain) {
  const Server server({storing(tls_of(endpoint_certificate_)),
                       storing(tls_of(endpoint_certificate_)),
                       storing(tls_of(endpoint_certificate_))});
  const ACertificate other_ca("");
  other_ca.write(directory_ / "ca.pem");
  const auto client = client_of(server.url("https", "profd.example"));
  EXPECT_FALSE(client->connect());
  ca_.write(directory_ / "next.pem");
  std::filesystem::rename(directory_ / "next.pem", directory_ / "ca.pem");
  EXPECT_EQ(client->push(message_of()).status, 200U);
}

TEST_F(TlsPushTest, AFileThatCanNotBeUsedIsNamed) {
  const std::string none = directory_ / "none.pem";
  const std::string text = file("text.pem", "no PEM");
  const ACertificate other("DNS:x");
  other.write(directory_ / "cert.pem");
  ca_.write_key(directory_ / "key.pem");
  const std::string cert = directory_ / "cert.pem";
  const std::string key = directory_ / "key.pem";
  const std::string ca = directory_ / "ca.pem";
  struct Case {
    TlsSettings tls;
    std::string file;
  };
  for (const Case& one : std::vector<Case>{{{none, "", ""}, none},
                                           {{text, "", ""}, text},
                                           {{ca, none, key}, none},
                                           {{ca, text, key}, text},
                                           {{ca, cert, none}, none},
                                           {{ca, cert, text}, text},
                                           {{ca, cert, key}, key}}) {
    endpoint_.tls = one.tls;
    const auto connected = client_of("https://127.0.0.1:1")->connect();
    ASSERT_FALSE(connected);
    EXPECT_THAT(connected.error().message, HasSubstr(one.file));
    EXPECT_NE(connected.error().hint, "");
  }
}

TEST_F(TlsPushTest, AnEndpointIsReachedThroughAProxy) {
  std::string connect;
  const auto tls = tls_of(endpoint_certificate_);
  const Server proxy({[&](Peer& peer) {
    connect = peer.read_header();
    peer.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (peer.start_tls(*tls)) store_all(peer);
  }});
  environment_["HTTPS_PROXY"] = "http://user:pass@127.0.0.1:" + proxy.port();
  EXPECT_EQ(push_once("https://profd.example/a").status, 200U);
  EXPECT_EQ(connect,
            "CONNECT profd.example:443 HTTP/1.1\r\nHost: profd.example:443\r\n"
            "User-Agent: profctl\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n");
  EXPECT_EQ(lookups_, 0);
}

}  // namespace
}  // namespace profd
