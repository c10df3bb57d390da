#include "ctl/ship/transport/http_proxy.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

Result<std::optional<HttpProxy>> proxy_of(const std::string& url,
                                          std::map<std::string, std::string> variables) {
  return find_proxy(*parse_http_url(url),
                    [&variables](const char* name) { return variables[name]; });
}

// "": straight.
std::string proxy_host(const std::string& url, std::map<std::string, std::string> variables) {
  const auto proxy = proxy_of(url, std::move(variables));
  return *proxy ? (*proxy)->address.host : "";
}

TEST(HttpProxyTest, EachSchemeHasItsVariable) {
  EXPECT_EQ(proxy_host("http://h", {}), "");
  EXPECT_EQ(proxy_host("http://h", {{"http_proxy", "http://p:1"}}), "p");
  EXPECT_EQ(proxy_host("http://h", {{"https_proxy", "http://p:1"}}), "");
  EXPECT_EQ(proxy_host("https://h", {{"https_proxy", "http://p:1"}}), "p");
  EXPECT_EQ(proxy_host("https://h", {{"HTTPS_PROXY", "http://p:1"}}), "p");
  EXPECT_EQ(proxy_host("https://h", {{"HTTPS_PROXY", "q"}, {"https_proxy", "p"}}), "p");
  EXPECT_EQ(proxy_host("https://h", {{"http_proxy", "http://p:1"}}), "");
  // A request of CGI may set it.
  EXPECT_EQ(proxy_host("http://h", {{"HTTP_PROXY", "http://p:1"}}), "");
}

TEST(HttpProxyTest, ThisHostIsReachedStraight) {
  for (const char* url : {"http://127.0.0.1:4040", "http://localhost", "http://[::1]:1"}) {
    EXPECT_EQ(proxy_host(url, {{"http_proxy", "http://p:1"}}), "") << url;
  }
}

TEST(HttpProxyTest, AProxyHasItsUserAndPassword) {
  const auto proxy = proxy_of("http://h", {{"http_proxy", "http://us%65r:p%40%3A@p:3128/"}});
  ASSERT_TRUE(proxy);
  EXPECT_EQ((*proxy)->address, (HttpUrl{"p", "3128", ""}));
  EXPECT_EQ((*proxy)->authorization, "Basic dXNlcjpwQDo=");  // user:p@:
  EXPECT_EQ((*proxy_of("http://h", {{"http_proxy", "[::2]:3128"}}))->address,
            (HttpUrl{"::2", "3128", ""}));
}

TEST(HttpProxyTest, AMalformedVariableIsNamedAndNotShown) {
  for (const char* value : {"https://secret@p", "socks5://secret@p", "http://p/secret",
                            "secret:", "http://", "http://secret:%4@p", "http://secret:%zz@p",
                            "se cret", "http://secret%3a:x@p", "http://p:1:secret"}) {
    const auto proxy = proxy_of("http://h", {{"http_proxy", value}});
    ASSERT_FALSE(proxy) << value;
    EXPECT_THAT(proxy.error().message, HasSubstr("http_proxy"));
    EXPECT_THAT(proxy.error().message + proxy.error().hint, Not(HasSubstr("secret")));
  }
}

TEST(HttpProxyTest, HostsOfNoProxyAreReachedStraight) {
  struct Case {
    const char* list;
    const char* url;
    bool is_straight;
  };
  for (const Case& one : std::vector<Case>{{"*", "http://h", true},
                                           {"", "http://h", false},
                                           {"h", "http://h", true},
                                           {"x, h", "http://h:4040", true},
                                           {"x h", "http://h", true},
                                           {"H.X", "http://a.h.x", true},
                                           {".h.x", "http://h.x", true},
                                           {"*.h.x", "http://a.h.x", true},
                                           {"h.x", "http://ah.x", false},
                                           {"h.x", "http://h.x.y", false},
                                           {".", "http://h", false},
                                           {"h:80", "http://h", true},
                                           {"h:81", "http://h", false},
                                           {"10.1.2.3", "http://10.1.2.3", true},
                                           {"2.3", "http://10.1.2.3", false},
                                           {"10.0.0.0/8", "http://10.1.2.3", true},
                                           {"10.0.0.0/8", "http://11.1.2.3", false},
                                           {"10.1.2.2/31", "http://10.1.2.3", true},
                                           {"10.1.2.2/32", "http://10.1.2.3", false},
                                           {"0.0.0.0/0", "http://10.1.2.3", true},
                                           {"10.1.2.3/33", "http://10.1.2.3", false},
                                           {"10.1.2.3/", "http://10.1.2.3", false},
                                           {"fd00::/8", "http://[fd12::1]", true},
                                           {"[fd12::1]:80", "http://[fd12::1]", true},
                                           {"[fd12::1]:81", "http://[fd12::1]", false},
                                           {"fd12::1", "http://[fd12::0:1]", true},
                                           {"::/0", "http://10.1.2.3", false},
                                           {"[", "http://h", false}}) {
    for (const char* variable : {"no_proxy", "NO_PROXY"}) {
      const std::string host = proxy_host(one.url, {{"http_proxy", "p"}, {variable, one.list}});
      EXPECT_EQ(host.empty(), one.is_straight) << one.list << " " << one.url;
    }
  }
}

}  // namespace
}  // namespace profd
