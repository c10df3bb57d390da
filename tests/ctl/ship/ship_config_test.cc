#include "ctl/ship/ship_config.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/endpoint_files.h"

namespace profd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
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
  EXPECT_EQ(reading.config.pyroscope[0].http.name, "a");
  EXPECT_EQ(reading.config.pyroscope[0].http.address, (HttpUrl{"127.0.0.1", "4040", ""}));
  EXPECT_EQ(reading.config.pyroscope[0].http.auth, HttpAuth());
  EXPECT_EQ(reading.config.pyroscope[0].http.tls, TlsSettings());
  EXPECT_EQ(reading.config.split.max_services, 200U);
}

TEST(ShipConfigTest, AnEndpointHasItsTransport) {
  const ShipConfigReading reading = read_ship_config(
      "[[pyroscope]]\nname = \"a\"\nurl = \"https://h.example/p\"\n"
      "basic_auth = { username = \"u\", password_file = \"/p\" }\n"
      "ca_file = \"/ca\"\ncert_file = \"/cert\"\nkey_file = \"/key\"\n"
      "[[pyroscope]]\nname = \"b\"\nurl = \"http://[::1]:1\"\nbearer_token_file = \"/t\"\n",
      "f");
  ASSERT_THAT(reading.errors, SizeIs(0));
  ASSERT_THAT(reading.config.pyroscope, SizeIs(2));
  const HttpEndpoint& first = reading.config.pyroscope[0].http;
  EXPECT_EQ(first.address, (HttpUrl{"h.example", "443", "/p", true}));
  EXPECT_EQ(first.auth, (HttpAuth{"u", "/p", ""}));
  EXPECT_EQ(first.tls, (TlsSettings{"/ca", "/cert", "/key"}));
  EXPECT_EQ(reading.config.pyroscope[1].http.auth, (HttpAuth{"", "", "/t"}));
}

TEST(ShipConfigTest, EachInvalidValueOfATransportIsNamedWithItsPlace) {
  struct Case {
    const char* url;
    const char* text;  // begins in line 4
    const char* error;
  };
  const char* const tls = "https://h";
  for (const Case& one : std::vector<Case>{
           {"http://h", "bearer_token_file = \"/t\"",
            "f:4:21: the secret of bearer_token_file would be sent in clear text"},
           {"http://127.0.0.1.h", "basic_auth = { username = \"u\", password_file = \"/p\" }",
            "f:4:14: the secret of basic_auth would be sent in clear text"},
           {"http://h", "ca_file = \"/c\"", "f:4:11: ca_file is for an https url"},
           {tls, "ca_file = \"c\"", "f:4:11: ca_file must be an absolute path"},
           {tls, "cert_file = \"/c\"", "f:4:13: cert_file needs key_file"},
           {tls, "key_file = \"/c\"", "f:4:12: key_file needs cert_file"},
           {tls, "bearer_token_file = 1", "f:4:21: bearer_token_file must be an absolute path"},
           {tls, "basic_auth = \"u:p\"", "f:4:14: basic_auth must have a username"},
           {tls, "basic_auth = { username = \"u\" }", "f:4:14: basic_auth must have a username"},
           {tls, "basic_auth = { username = \"u:\", password_file = \"/p\" }",
            "f:4:27: username must have no colon"},
           {tls, "basic_auth = { username = \"u\", password_file = \"/p\", password = \"p\" }",
            "f:4:54: unknown key password"},
           {tls,
            "basic_auth = { username = \"u\", password_file = \"/p\" }\nbearer_token_file = \"/t\"",
            "f:5:21: an endpoint with basic_auth has no other secret"},
           {"https://u:secret@h", "", "f:3:7: url must have no user and password"},
       }) {
    const auto errors = errors_of("[[pyroscope]]\nname = \"a\"\nurl = \"" + std::string(one.url) +
                                  "\"\n" + one.text + "\n");
    ASSERT_THAT(errors, SizeIs(1)) << one.text;
    EXPECT_THAT(errors[0], AllOf(StartsWith(one.error), Not(HasSubstr("secret@")))) << one.text;
  }
}

TEST(ShipConfigTest, ASecretMayGoToThisHostInClearText) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]"}) {
    EXPECT_THAT(errors_of("[[pyroscope]]\nname = \"a\"\nurl = \"http://" + std::string(host) +
                          ":4040\"\nbearer_token_file = \"/t\"\n"),
                SizeIs(0))
        << host;
  }
  for (const char* host :
       {"localhost.example", "127.1", "[::2]", "[::ffff:127.0.0.1]", "128.0.0.1"}) {
    EXPECT_THAT(errors_of("[[pyroscope]]\nname = \"a\"\nurl = \"http://" + std::string(host) +
                          ":4040\"\nbearer_token_file = \"/t\"\n"),
                SizeIs(1))
        << host;
  }
}

TEST(ShipConfigTest, EndpointsAreOfThreeKindsWithNamesOfTheirOwn) {
  const std::string others =
      "[[parca]]\nname = \"b\"\nurl = \"http://127.0.0.1:7070\"\n"
      "[[otlp]]\nname = \"c\"\nurl = \"http://127.0.0.1:4318/x\"\ntenant = \"t\"\n";
  const ShipConfigReading reading = read_ship_config(kEndpoint + others, "f");
  EXPECT_THAT(reading.errors, SizeIs(0));
  ASSERT_THAT(reading.config.parca, SizeIs(1));
  EXPECT_EQ(reading.config.parca[0].http.name, "b");
  EXPECT_EQ(reading.config.parca[0].http.address.port, "7070");
  ASSERT_THAT(reading.config.otlp, SizeIs(1));
  EXPECT_EQ(reading.config.otlp[0].http.address.path, "/x");
  EXPECT_EQ(reading.config.otlp[0].tenant, "t");
  EXPECT_THAT(errors_of("[[parca]]\nname = \"b\"\nurl = \"http://h\"\n"), SizeIs(0));
  EXPECT_THAT(errors_of(kEndpoint + "[[parca]]\nname = \"a\"\nurl = \"http://h\"\n"),
              ElementsAre(HasSubstr("f:5:8: two endpoints have the name a")));
  EXPECT_THAT(errors_of("[[parca]]\nname = \"b\"\nurl = \"http://h\"\ntenant = \"t\"\n"),
              ElementsAre(HasSubstr("f:4:1: unknown key tenant")));
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
           {"pyroscope = 1\n", "f:1:13: pyroscope must be a list of tables"},
           {"[[pyroscope]]\nname = \"a/b\"\nurl = \"http://h\"\n", "f:2:8: name must have"},
           {"[[pyroscope]]\nname = \"a\"\nurl = \"ftp://h\"\n", "f:3:7: url must be http"},
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
           {"[[service]]\nservice_name = \"a-{unti}\"\n",
            "f:2:16: service_name has the unknown placeholder {unti}"},
           {"[[service]]\nservice_name = \"{unit}{host}\"\n",
            "f:2:16: service_name has the unknown placeholder {host}"},
           {"[[service]]\nlabels = { team = \"{}{ a{pid}\" }\n",
            "f:2:19: the label team has the unknown placeholder {pid}"},
       }) {
    const auto errors = errors_of(one.text);
    ASSERT_FALSE(errors.empty()) << one.text;
    EXPECT_THAT(errors[0], StartsWith(one.error)) << one.text;
  }
}

// Each has threads, of which the unit has a limit.
TEST(ShipConfigTest, TheEndpointsOfAllKindsHaveALimitTogether) {
  const auto endpoints = [](const std::string& kind, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "[[" + kind + "]]\nname = \"" + kind + std::to_string(i) + "\"\nurl = \"http://h\"\n";
    }
    return text;
  };
  EXPECT_THAT(errors_of(endpoints("parca", 9) + endpoints("pyroscope", 7)), SizeIs(0));
  EXPECT_THAT(errors_of(endpoints("parca", 9) + endpoints("pyroscope", 9)),
              ElementsAre("f:49:1: there are more than 16 endpoints"));
}

TEST(ShipConfigTest, AnErrorOfTomlIsALineOfText) {
  const auto errors = errors_of("[[pyroscope]\nname = \"a\"\n");
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], AllOf(StartsWith("f:1:"), HasSubstr("saw the end of the line")));
  EXPECT_THAT(errors[0], AllOf(Not(HasSubstr("\\")), Not(HasSubstr("\n"))));
  // A key of the file may have any character.
  const auto twice = errors_of("\"\xe2\x80\xae\" = 1\n\"\xe2\x80\xae\" = 2\n");
  ASSERT_THAT(twice, SizeIs(1));
  EXPECT_THAT(twice[0], AllOf(StartsWith("f:"), Not(HasSubstr("\xe2\x80\xae"))));
}

TEST(ShipConfigTest, AnUnknownPlaceholderHasTheNearestKeyAsHint) {
  const auto hint = [](const std::string& service) {
    const auto errors =
        read_ship_config(kEndpoint + "[[service]]\nservice_name = \"" + service + "\"\n", "f")
            .errors;
    return errors.empty() ? "valid" : errors[0].hint;
  };
  EXPECT_EQ(hint("{unt}"), "did you mean unit?");
  EXPECT_EQ(hint("{qqqqqq}"),
            "the keys are cgroup, comm, container, namespace, pod, runtime, unit and user");
  for (const char* const text :
       {"{unit}", "a{comm}b{pod}", "{}", "{ unit }", "{unit", "unit}", "{{unit}}", "{a b}"}) {
    EXPECT_EQ(hint(text), "valid") << text;
  }
}

// Fails without the hint, and where it does not name the key that is meant.
TEST(ShipConfigTest, AnInvalidTableOrKeySaysWhatBelongsThere) {
  struct Case {
    const char* text;
    const char* message;
    const char* hint;
  };
  for (const Case& one : std::vector<Case>{
           {"[pyroscope]\nname = \"a\"\n", "f:1:1: pyroscope must be a list of tables",
            "begin each of its tables with [[pyroscope]] instead of [pyroscope]"},
           {"service = 1\n", "f:1:11: service must be a list of tables",
            "begin each of its tables with [[service]]"},
           {"[[pyroscope]]\nurl = \"http://h\"\n", "f:1:1: the endpoint has no name",
            "add one that no other endpoint has: name = \"a\""},
           {"[[parca]]\nname = \"a\"\n", "f:1:1: the endpoint has no url",
            "add where the engine listens: url = \"http://HOST:PORT\""},
           {"[[parca]]\nname = \"a\"\nurl = \"http://h\"\ntoken = \"t\"\n",
            "f:4:1: unknown key token", "did you mean bearer_token_file?"},
           {"[metrics]\nlisten = \"127.0.0.1:1\"\nqqqqqq = 1\n", "f:3:1: unknown key qqqqqq",
            "known keys: listen"},
           {"hosts = \"h\"\n", "f:1:1: unknown key hosts", "did you mean host?"}}) {
    const auto errors = read_ship_config(one.text, "f").errors;
    ASSERT_FALSE(errors.empty()) << one.text;
    EXPECT_EQ(errors[0].message, one.message);
    EXPECT_EQ(errors[0].hint, one.hint);
  }
}

TEST(ShipConfigTest, TheTablesOfAKindHaveALimit) {
  std::string rules;
  for (int i = 0; i < 1001; ++i) rules += "[[service]]\ndrop = true\n";
  EXPECT_THAT(errors_of(kEndpoint + rules),
              ElementsAre(HasSubstr("service must have at most 1000 tables [[service]]")));
}

// profctl exits with 2 then, after which systemd does not start it again.
TEST(ShipConfigTest, EachErrorIsAnInvalidArgument) {
  for (const char* text : {"x = \n", "[[pyroscope]\n", "hots = \"h\"\n", ""}) {
    const auto errors = read_ship_config(text, "f").errors;
    ASSERT_FALSE(errors.empty()) << text;
    for (const Error& error : errors) EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << text;
  }
}

// A running profctl ship waits for them, so that reading the configuration alone finds nothing.
TEST(ShipConfigTest, FilesThatAreNamedAndMissingHaveTheirPlaces) {
  std::string pattern = std::filesystem::temp_directory_path() / "ship-files-XXXXXX";
  const std::filesystem::path directory = ::mkdtemp(pattern.data());
  const std::string there = directory / "there";
  const std::string gone = directory / "gone";
  const std::string empty = directory / "empty";
  std::ofstream(there) << "text\n";
  std::ofstream(empty) << "";
  const auto errors_with = [](const std::string& line) {
    const ShipConfigReading reading =
        read_ship_config("[[pyroscope]]\nname = \"a\"\nurl = \"https://h\"\n" + line + "\n", "f");
    EXPECT_THAT(reading.errors, SizeIs(0)) << line;
    std::vector<std::string> messages;
    for (const Error& error : errors_of_files(reading.files)) {
      EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
      EXPECT_NE(error.hint, "");
      messages.push_back(error.message);
    }
    return messages;
  };
  const auto password = [](const std::string& path) {
    return "basic_auth = { username = \"u\", password_file = \"" + path + "\" }";
  };
  const auto pair = [](const std::string& certificate, const std::string& key) {
    return "cert_file = \"" + certificate + "\"\nkey_file = \"" + key + "\"";
  };
  EXPECT_THAT(errors_with(""), SizeIs(0));
  EXPECT_THAT(errors_with("bearer_token_file = \"" + there + "\""), SizeIs(0));
  EXPECT_THAT(errors_with(password(there)), SizeIs(0));
  EXPECT_THAT(errors_with(pair(there, there)), SizeIs(0));
  EXPECT_THAT(errors_with("bearer_token_file = \"" + gone + "\""),
              ElementsAre(StartsWith("f:4:21: bearer_token_file: could not open " + gone)));
  EXPECT_THAT(errors_with("bearer_token_file = \"" + empty + "\""),
              ElementsAre("f:4:21: bearer_token_file: " + empty + " is empty"));
  EXPECT_THAT(errors_with(password(gone)),
              ElementsAre(StartsWith("f:4:48: password_file: could not open " + gone)));
  EXPECT_THAT(errors_with("ca_file = \"" + gone + "\""),
              ElementsAre(StartsWith("f:4:11: ca_file: could not open " + gone)));
  EXPECT_THAT(errors_with("ca_file = \"/dev/null\""),
              ElementsAre("f:4:11: ca_file: /dev/null is no regular file"));
  EXPECT_THAT(errors_with(pair(gone, there)), ElementsAre(StartsWith("f:4:13: cert_file: ")));
  EXPECT_THAT(errors_with(pair(there, gone)), ElementsAre(StartsWith("f:5:12: key_file: ")));
  std::filesystem::remove_all(directory);
}

TEST(ShipConfigTest, AFileIsReadWholeOrNotAtAll) {
  std::string pattern = std::filesystem::temp_directory_path() / "ship-config-XXXXXX";
  const std::filesystem::path directory = ::mkdtemp(pattern.data());
  const std::string file = directory / "ship.toml";
  const Error missing = load_ship_config(file).error();
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.hint, AllOf(HasSubstr("/usr/share/doc/profd/examples/ship.toml to " + file),
                                  HasSubstr("--config FILE")));
  const auto load = [&file](std::size_t bytes) {
    std::ofstream(file) << kEndpoint << std::string(bytes - kEndpoint.size(), '\n');
    return load_ship_config(file);
  };
  const auto largest = load(std::size_t{1} << 20);
  ASSERT_TRUE(largest);
  EXPECT_THAT(largest->errors, SizeIs(0));
  EXPECT_THAT(largest->config.pyroscope, SizeIs(1));
  const auto larger = load((std::size_t{1} << 20) + 1);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(larger.error().message, HasSubstr("more than 1 MiB"));
  std::filesystem::remove_all(directory);
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
  EXPECT_EQ(*parse_http_url("https://H.x"), (HttpUrl{"h.x", "443", "", true}));
  EXPECT_EQ(authority_of(*parse_http_url("https://[::1]")), "[::1]:443");
  EXPECT_EQ(host_field_of(*parse_http_url("https://[::1]")), "[::1]");
  EXPECT_EQ(host_field_of(*parse_http_url("http://h:443")), "h:443");
  EXPECT_EQ(*parse_http_url("http://[::1]:1/a/b/"), (HttpUrl{"::1", "1", "/a/b"}));
  for (const char* text : {"", "h", "http://", "http://:1", "http://h:", "http://h:0", "http://h:x",
                           "http://u@h", "http://h?x", "http://[::1", "http://[::1]x", "ftp://h",
                           "http://.h", "http://h/\xc3\xa9", "http://h\r\nX: y"}) {
    EXPECT_FALSE(parse_http_url(text)) << text;
  }
}

}  // namespace
}  // namespace profd
