// Who is answered by profctl web, and within which limits.

#include "ctl/web/web_server.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/web/web_tls.h"
#include "tests/ctl/web/web_client.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using std::chrono_literals::operator""ms;

WebReply echo(const WebRequest& request) {
  if (request.path() == "/throw") throw std::runtime_error("no memory");
  if (request.path() == "/later") {
    return {.then = [] { return WebReply{.body = "then"}; }, .wait = 1ms};
  }
  return {.body = request.path() + " " + std::string(request.field("x"))};
}

class WebServerTest : public testing::Test {
 protected:
  [[nodiscard]] std::string request(const std::string& method, const std::string& target,
                                    const std::string& headers) const {
    return method + " " + target + " HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n";
  }
  [[nodiscard]] std::string own_host() const { return "Host: " + web_.host() + "\r\n"; }
  [[nodiscard]] std::string with_token(const std::string& path) const {
    return path + "?token=" + web_.token();
  }

  test::RunningWeb web_{echo};
};

TEST_F(WebServerTest, ItsAddressHasATokenOf128RandomBits) {
  EXPECT_THAT(web_.url(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/\\?token=[0-9a-f]{32}"));
  const test::RunningWeb other(echo);
  EXPECT_NE(web_.token(), other.token());
}

TEST_F(WebServerTest, ARequestWithTheTokenIsAnswered) {
  const auto answer = web_.get("/a%20b?x=1+2%26");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "/a b 1 2&");
}

TEST_F(WebServerTest, WithoutTheTokenNothingButThePagesOwnFilesIsAnswered) {
  std::string wrong = web_.token();
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const std::string& target :
       {std::string("/"), std::string("/api/table"), std::string("/?token="), "/?token=" + wrong,
        "/?token=" + web_.token() + "0", "/?token=" + web_.token().substr(1),
        std::string("/?Token=") + web_.token()}) {
    EXPECT_EQ(web_.send(request("GET", target, own_host())).status, 403) << target;
  }
  EXPECT_EQ(web_.send(request("GET", "/tree.js", own_host())).status, 200);
  EXPECT_EQ(web_.send(request("GET", "/style.css", own_host())).status, 200);
  EXPECT_EQ(web_.send(request("GET", "/api/table?x=a.js", own_host())).status, 403);
}

// Another name for 127.0.0.1 is that of a site which wants to read the page. ssh -L has a port of
// its own.
TEST_F(WebServerTest, AnotherHostIsRefused) {
  const std::string port = ":" + std::to_string(web_.port());
  const std::vector<std::pair<std::string, int>> cases = {{"127.0.0.1" + port, 200},
                                                          {"localhost" + port, 200},
                                                          {"LOCALHOST" + port, 200},
                                                          {"127.0.0.1", 200},
                                                          {"127.0.0.1:1", 200},
                                                          {"localhost", 200},
                                                          {"[::1]:9000", 200},
                                                          {"evil.example" + port, 403},
                                                          {"evil.example", 403},
                                                          {"127.0.0.1.evil.example" + port, 403},
                                                          {"evil.example:127.0.0.1", 403},
                                                          {"127.0.0.2" + port, 403},
                                                          {"127.0.0.1:" + port, 403},
                                                          {"127.0.0.1:", 403},
                                                          {"localhost" + port + "x", 403},
                                                          {"localhost." + port, 403},
                                                          {"localhost:-1", 403},
                                                          {"x@localhost" + port, 403},
                                                          {"::1", 403}};
  for (const auto& [host, status] : cases) {
    EXPECT_EQ(web_.send(request("GET", with_token("/"), "Host: " + host + "\r\n")).status, status)
        << host;
  }
  EXPECT_EQ(web_.send(request("GET", with_token("/"), "")).status, 403);
  const auto refused = web_.send(request("GET", with_token("/"), "Host: evil.example\r\n"));
  EXPECT_THAT(refused.body, HasSubstr("another host"));
  EXPECT_THAT(refused.body, HasSubstr("127.0.0.1 or localhost, with any port"));
  EXPECT_THAT(refused.body, HasSubstr("ssh -L"));
}

// A page of another port of this host is another site's, whatever port Host has.
TEST_F(WebServerTest, ThePageOfAnotherPortIsRefused) {
  const std::string forwarded = "Host: 127.0.0.1:9000\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {"Origin: http://127.0.0.1:9000", 200},
      {"Origin: http://127.0.0.1:" + std::to_string(web_.port()), 403},
      {"Origin: http://localhost:9000", 403},
      {"Origin: http://127.0.0.1", 403},
      {"Origin: https://127.0.0.1:9000", 403},
      {"Sec-Fetch-Site: same-site", 403},
      {"Sec-Fetch-Site: same-origin", 200}};
  for (const auto& [header, status] : cases) {
    const std::string asked = request("GET", with_token("/"), forwarded + header + "\r\n");
    EXPECT_EQ(web_.send(asked).status, status) << header;
  }
  EXPECT_EQ(web_.send(request("GET", "/", forwarded)).status, 403);
}

TEST_F(WebServerTest, ThePageOfAnotherSiteIsRefused) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"Origin: http://evil.example", 403},
      {"Origin: null", 403},
      {"Origin: http://localhost:1", 403},
      {"Origin: http://" + web_.host(), 200},
      {"Sec-Fetch-Site: cross-site", 403},
      {"Sec-Fetch-Site: same-site", 403},
      {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script", 403},
      {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe", 403},
      {"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document", 200},
      {"Sec-Fetch-Site: none", 200},
      {"Sec-Fetch-Site: same-origin", 200}};
  for (const auto& [header, status] : cases) {
    EXPECT_EQ(web_.get("/", header + "\r\n").status, status) << header;
  }
}

TEST_F(WebServerTest, NothingCanBeWritten) {
  for (const char* const method :
       {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "BREW"}) {
    const auto answer = web_.send(request(method, with_token("/"), own_host()));
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers.at("Allow"), "GET, HEAD") << method;
  }
  const auto form = web_.send(request("POST", with_token("/"),
                                      own_host() + "Content-Type: application/x-www-form-urlencoded"
                                                   "\r\nContent-Length: 3\r\n") +
                              "a=b");
  EXPECT_EQ(form.status, 405);
}

TEST_F(WebServerTest, HeadHasTheHeaderOfGet) {
  const auto answer = web_.send(request("HEAD", with_token("/abc"), own_host()));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("Content-Length"), "5");
  EXPECT_EQ(answer.body, "");
}

TEST_F(WebServerTest, EachAnswerKeepsBrowsersFromOtherSites) {
  for (const auto& answer :
       {web_.get("/"), web_.get("/throw"), web_.send(request("GET", "/", own_host())),
        web_.send(request("POST", "/", own_host()))}) {
    const std::string& policy = answer.headers.at("Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'; "
                                  "connect-src 'self'; img-src 'self' data:;"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(answer.headers.at("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.headers.at("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(answer.headers.at("Cross-Origin-Resource-Policy"), "same-origin");
    EXPECT_EQ(answer.headers.at("Cache-Control"), "no-store");
    EXPECT_FALSE(answer.headers.contains("Access-Control-Allow-Origin"));
  }
}

TEST_F(WebServerTest, WhatIsNoRequestIsRefused) {
  EXPECT_EQ(web_.send("nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(web_.send("GET / HTTP/9.9\r\n\r\n").status, 400);
  EXPECT_EQ(web_.get("/%zz").status, 400);
  EXPECT_EQ(web_.get("/?a=%4").status, 400);
  std::string many = "/?";
  for (int i = 0; i < 300; ++i) many += "a&";
  EXPECT_EQ(web_.get(many).status, 400);
}

TEST_F(WebServerTest, ALargeHeaderIsRefused) {
  EXPECT_EQ(web_.get("/", "X: " + std::string(8'000, 'x') + "\r\n").status, 200);
  const auto answer = web_.get("/", "X: " + std::string(20'000, 'x') + "\r\n");
  // The rest of the header may still be on its way when the connection is closed.
  EXPECT_TRUE(answer.status == 431 || answer.status == 0) << answer.status;
}

TEST_F(WebServerTest, AnErrorOfTheServersOwnIsAnAnswer) {
  const auto answer = web_.get("/throw");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("no memory"));
  EXPECT_EQ(web_.get("/").status, 200);
}

TEST_F(WebServerTest, AnAnswerMayNeedTime) { EXPECT_EQ(web_.get("/later").body, "then"); }

TEST_F(WebServerTest, OneConnectionHasManyRequests) {
  const std::string one = "GET " + with_token("/x") + " HTTP/1.1\r\n" + own_host();
  const auto answer = web_.send(one + "\r\n" + one + "Connection: close\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("HTTP/1.1 200"));
}

// A body is no next request.
TEST_F(WebServerTest, ABodyEndsTheConnection) {
  const std::string smuggled =
      "GET " + with_token("/smuggled") + " HTTP/1.1\r\n" + own_host() + "\r\n";
  const auto answer =
      web_.send("GET " + with_token("/x") + " HTTP/1.1\r\n" + own_host() +
                "Content-Length: " + std::to_string(smuggled.size()) + "\r\n\r\n" + smuggled);
  EXPECT_THAT(answer.body, Not(HasSubstr("smuggled")));
}

TEST(WebServerLimitsTest, AnIdleConnectionIsClosed) {
  const test::RunningWeb web(echo, {.request = 50ms});
  const UniqueFd socket = test::connect_to_port(web.port());
  EXPECT_EQ(test::read_to_end(socket.get()), "");
  const UniqueFd slow = test::connect_to_port(web.port());
  ASSERT_EQ(::send(slow.get(), "GET /", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(test::read_to_end(slow.get()), "");
}

TEST(WebServerLimitsTest, OneConnectionTooManyIsClosed) {
  const test::RunningWeb web(echo, {.connections = 2});
  const UniqueFd first = test::connect_to_port(web.port());
  const UniqueFd second = test::connect_to_port(web.port());
  const UniqueFd third = test::connect_to_port(web.port());
  EXPECT_EQ(test::read_to_end(third.get()), "");
}

TEST(WebServerLimitsTest, APortThatIsTakenIsFollowedByTheNextOne) {
  const test::RunningWeb web(echo);
  const auto next = WebServer::open("127.0.0.1", web.port(), echo);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_THAT((*next)->url(), Not(HasSubstr(":" + std::to_string(web.port()) + "/")));
  EXPECT_THAT((*next)->url(), HasSubstr("http://127.0.0.1:"));
}

TEST(WebServerLimitsTest, OtherHostsCantReachIt) {
  for (const char* const address : {"0.0.0.0", "::", "192.0.2.1"}) {
    const auto refused = WebServer::open(address, 0, echo);
    ASSERT_FALSE(refused) << address;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << address;
    EXPECT_THAT(refused.error().hint, HasSubstr("--tls-cert and --tls-key"));
    EXPECT_THAT(refused.error().hint, HasSubstr("ssh -L"));
  }
  EXPECT_EQ(WebServer::open("localhost", 0, echo).error().code, ErrorCode::kInvalidArgument);
}

// A certificate for "profd.example" and ::1, and a client that knows it: openssl's own.
class WebTlsTest : public testing::Test {
 protected:
  WebTlsTest() {
    (void)test::output_of(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x "
        "-addext subjectAltName=DNS:profd.example,DNS:*.w.example,IP:::1 -keyout " +
        key_.string() + " -out " + certificate_.string() + " 2>&1");
  }

  // What the server answers to a request with this Host. `options`: of s_client.
  [[nodiscard]] std::string ask(const test::RunningWeb& web, const std::string& host,
                                const std::string& options = "") const {
    return test::output_of("printf 'GET /x?token=" + web.token() + " HTTP/1.1\r\nHost: " + host +
                           "\r\nConnection: close\r\n\r\n' | timeout 20 openssl s_client -quiet "
                           "-ign_eof -verify_return_error -verify_hostname profd.example -CAfile " +
                           certificate_.string() + " " + options +
                           " -connect 127.0.0.1:" + std::to_string(web.port()) + " 2>&1; true");
  }
  [[nodiscard]] std::shared_ptr<WebTls> open() const {
    return std::make_shared<WebTls>(WebTls::open(certificate_, key_).value());
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path certificate_ = scratch_.path() / "cert.pem";
  std::filesystem::path key_ = scratch_.path() / "key.pem";
};

TEST_F(WebTlsTest, AServerForOtherHostsHasTheNamesOfItsCertificate) {
  const test::RunningWeb web(echo, {}, open(), "0.0.0.0");
  EXPECT_THAT(web.url(), StartsWith("https://profd.example:"));
  const std::string port = ":" + std::to_string(web.port());
  for (const char* const host :
       {"profd.example", "PROFD.example", "a.w.example", "[::1]", "localhost"}) {
    EXPECT_THAT(ask(web, host + port), HasSubstr("HTTP/1.1 200")) << host;
  }
  for (const char* const host : {"evil.example", "x.profd.example", "192.0.2.1"}) {
    EXPECT_THAT(ask(web, host + port), HasSubstr("HTTP/1.1 403")) << host;
  }
  EXPECT_THAT(ask(web, "profd.example:1"), HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(ask(web, "profd.example"), HasSubstr("HTTP/1.1 403"));
}

TEST_F(WebTlsTest, OldProtocolsAndPlainRequestsGetNothing) {
  const test::RunningWeb web(echo, {.request = 500ms}, open(), "127.0.0.1");
  const std::string host = "profd.example:" + std::to_string(web.port());
  EXPECT_THAT(ask(web, host, "-tls1_2"), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(ask(web, host, "-tls1_1 -cipher DEFAULT@SECLEVEL=0"), Not(HasSubstr("HTTP/1.1")));
  EXPECT_EQ(web.get("/").status, 0);
}

TEST_F(WebTlsTest, WhatIsNoCertificateOrKeyIsRefused) {
  EXPECT_EQ(WebTls::open(scratch_.path() / "no", key_).error().code, ErrorCode::kIo);
  EXPECT_EQ(WebTls::open(key_, key_).error().code, ErrorCode::kMalformed);
  EXPECT_EQ(WebTls::open(certificate_, certificate_).error().code, ErrorCode::kMalformed);
  const auto locked = scratch_.path() / "locked.pem";
  (void)test::output_of("openssl ec -aes128 -passout pass:abcd -in " + key_.string() + " -out " +
                        locked.string() + " 2>&1");
  EXPECT_EQ(WebTls::open(certificate_, locked).error().code, ErrorCode::kMalformed);
  const auto other = scratch_.path() / "other.pem";
  (void)test::output_of("openssl genpkey -algorithm ed25519 -out " + other.string());
  EXPECT_EQ(WebTls::open(certificate_, other).error().code, ErrorCode::kMalformed);
}

}  // namespace
}  // namespace profd
