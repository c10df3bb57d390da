#include "ctl/ship/ship_config.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> messages;
  for (const Error& error : read_ship_config(text, "f").errors) messages.push_back(error.message);
  return messages;
}

const std::string kEndpoint = "[[pyroscope]]\nname = \"a\"\nurl = \"http://127.0.0.1:4040\"\n";

TEST(ShipConfigTest, TheMinimalFileIsAnEndpoint) {
  const ShipConfigReading reading = read_ship_config(kEndpoint, "f");
  EXPECT_THAT(reading.errors, SizeIs(0));
  ASSERT_THAT(reading.config.pyroscope, SizeIs(1));
  EXPECT_EQ(reading.config.pyroscope[0].name, "a");
  EXPECT_EQ(reading.config.pyroscope[0].address, (HttpUrl{"127.0.0.1", "4040", ""}));
  EXPECT_EQ(reading.config.split.max_services, 200U);
}

TEST(ShipConfigTest, RulesKeepTheirOrder) {
  const ShipConfigReading reading = read_ship_config(
      kEndpoint +
          "[[service]]\nunit = \"a*\"\nservice_name = \"x\"\nlabels = { team = \"t\" }\n"
          "[[service]]\ncomm = \"b\"\ndrop = true\n",
      "f");
  EXPECT_THAT(reading.errors, SizeIs(0));
  EXPECT_THAT(
      reading.config.split.rules,
      ElementsAre(
          ServiceRule{{{"unit", "a*"}}, "x", {{"team", "t"}}, false},
          ServiceRule{.patterns = {{"comm", "b"}}, .service = "", .labels = {}, .drop = true}));
}

TEST(ShipConfigTest, EachInvalidValueIsNamedWithItsPlace) {
  struct Case {
    const char* text;
    const char* error;
  };
  for (const Case& one : std::vector<Case>{
           {"", "f:1:1: no endpoint is named"},
           {"x = \n", "f:1:"},
           {"hots = \"h\"\n", "f:1:1: unknown key hots"},
           {"max_services = 0\n", "f:1:16: max_services must be a number from 1 to 5000"},
           {"pyroscope = 1\n", "f:1:13: pyroscope must be at most 16 tables"},
           {"[[pyroscope]]\nname = \"a/b\"\nurl = \"http://h\"\n", "f:2:8: name must have"},
           {"[[pyroscope]]\nname = \"a\"\nurl = \"https://h\"\n",
            "f:3:7: url must begin with http"},
           {"[[pyroscope]]\nname = \"a\"\nurl = \"http://h:99999\"\n", "f:3:7: url must be"},
           {"[[pyroscope]]\nurl = \"http://h\"\n", "f:1:1: the endpoint has no name"},
           {"[[pyroscope]]\nname = \"a\"\nurl = \"http://h\"\ntenant = \"a\\nb\"\n",
            "f:4:10: tenant must have"},
           {"metrics = 1\n", "f:1:11: metrics must be a table"},
           {"[metrics]\n", "f:1:1: metrics has no listen"},
           {"[metrics]\nlisten = \"localhost:9464\"\n", "f:2:10: listen must be ADDRESS:PORT"},
           {"[metrics]\nlisten = 9464\n", "f:2:10: listen must be ADDRESS:PORT"},
           {"[metrics]\nlisten = \"127.0.0.1:99999\"\n", "f:2:10: listen must be"},
           {"[metrics]\nlisten = \":9464\"\n", "f:2:10: listen must be"},
           {"[metrics]\nlisten = \"::1:9464\"\n", "f:2:10: listen must be"},
           {"[[service]]\nunit = \"a\"\n", "f:1:1: the rule does nothing"},
           {"[[service]]\nlabels = { __x = \"a\" }\n", "f:2:12: __x can't be the name"},
       }) {
    const auto errors = errors_of(one.text);
    ASSERT_FALSE(errors.empty()) << one.text;
    EXPECT_THAT(errors[0], StartsWith(one.error)) << one.text;
  }
}

TEST(ShipConfigTest, MetricsAreServedWhereTheFileSays) {
  const auto listen = [](const std::string& address) {
    return read_ship_config(kEndpoint + "[metrics]\nlisten = \"" + address + "\"\n", "f")
        .config.metrics;
  };
  EXPECT_EQ(read_ship_config(kEndpoint, "f").config.metrics, std::nullopt);
  EXPECT_EQ(listen("127.0.0.1:9464"), (MetricsListen{"127.0.0.1", 9464}));
  EXPECT_EQ(listen("[::1]:9464"), (MetricsListen{"::1", 9464}));
  EXPECT_EQ(listen("0.0.0.0:0"), (MetricsListen{"0.0.0.0", 0}));
}

TEST(ShipConfigTest, TwoEndpointsHaveTwoNames) {
  EXPECT_THAT(errors_of(kEndpoint + kEndpoint), ElementsAre(HasSubstr("f:5:8: two endpoints")));
}

TEST(ShipConfigTest, UrlsAreReadToTheirParts) {
  EXPECT_EQ(*parse_http_url("http://h"), (HttpUrl{"h", "80", ""}));
  EXPECT_EQ(*parse_http_url("http://h/"), (HttpUrl{"h", "80", ""}));
  EXPECT_EQ(*parse_http_url("http://[::1]:1/a/b/"), (HttpUrl{"::1", "1", "/a/b"}));
  for (const char* text : {"", "h", "http://", "http://:1", "http://h:", "http://h:0", "http://h:x",
                           "http://u@h", "http://h?x", "http://[::1", "http://[::1]x", "ftp://h"}) {
    EXPECT_FALSE(parse_http_url(text)) << text;
  }
}

}  // namespace
}  // namespace profd
