#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>

#include "daemon/service/config_keys.h"
#include "daemon/service/config_reader.h"
#include "daemon/service/running_config.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

ConfigReading parse(const std::string& text) {
  ConfigReading reading;
  read_config_text(text, "f", reading);
  return reading;
}

TEST(Config, HasADefaultForEveryKey) {
  const ConfigReading reading = parse("");
  EXPECT_THAT(reading.errors, IsEmpty());
  EXPECT_THAT(reading.origins, IsEmpty());
  EXPECT_EQ(reading.config.socket, "/run/profd/profd.sock");
  EXPECT_EQ(reading.config.state_dir, "/var/lib/profd");
  EXPECT_EQ(reading.config.log_level, "info");
  EXPECT_FALSE(reading.config.continuous.enabled);
  EXPECT_EQ(reading.config.continuous.window, std::chrono::minutes(1));
}

TEST(Config, ErrorsHaveNoControlCharactersOfTheFile) {
  for (const char* text : {"\"a\\u001b[2J\\nb\" = 1", "log_level = \"\\u001b[2J\\nx\"",
                           "\"a\\nb\" = 1\n[\"a\\nb\"]", "[\"\\u001b\"]\n[\"\\u001b\"]"}) {
    const ConfigReading reading = parse(text);
    ASSERT_FALSE(reading.errors.empty()) << text;
    for (const Error& error : reading.errors) {
      EXPECT_TRUE(std::ranges::all_of(error.message, [](char c) { return c >= ' ' && c <= '~'; }))
          << error.message;
    }
  }
}

constexpr const char* kEveryKey = R"(
socket = "/tmp/s"
state_dir = "/tmp/d"
log_level = "debug"
ring_bytes = 65536
session_max_bytes = "2MiB"
results_max_bytes = "3MiB"
unwind_max_bytes = 8388608
[continuous]
enabled = true
window = "90s"
frequency = 49
max_age = "12h"
hours_max_age = "10d"
max_bytes = "1.5GiB"
off_cpu = true
ask_runtime = true
[jit]
directories = ["/srv/app", "/var/jit"]
[xray]
directory = "/srv/traces"
)";

TEST(Config, TakesEveryKey) {
  const ConfigReading reading = parse(kEveryKey);
  ASSERT_THAT(reading.errors, IsEmpty());
  EXPECT_THAT(reading.origins, SizeIs(config_keys().size()));
  const Config expected{.socket = "/tmp/s",
                        .state_dir = "/tmp/d",
                        .log_level = "debug",
                        .ring_bytes = 65536,
                        .session_max_bytes = 2097152,
                        .results_max_bytes = 3145728,
                        .unwind_max_bytes = 8388608,
                        .continuous = {.enabled = true,
                                       .window = std::chrono::seconds(90),
                                       .frequency_hz = 49,
                                       .max_age = std::chrono::hours(12),
                                       .hours_max_age = std::chrono::hours(240),
                                       .max_bytes = 1610612736,
                                       .off_cpu = true,
                                       .ask_runtime = true},
                        .jit_directories = {"/srv/app", "/var/jit"},
                        .xray_directory = "/srv/traces"};
  EXPECT_EQ(reading.config, expected);
}

struct BadConfig {
  const char* text;
  const char* place;
  const char* message;
  const char* hint;
};

TEST(Config, NamesThePlaceOfEachInvalidValue) {
  const BadConfig table[] = {
      {"sokcet = \"/tmp/s\"", "f:1:1: ", "unknown key sokcet", "socket"},
      {"socket = \"/a\"\n\n  ring_byte = 1", "f:3:3: ", "unknown key ring_byte", "ring_bytes"},
      {"zzzzzz = 1", "f:1:1: ", "unknown key zzzzzz", ""},
      {"[continous]\nenabled = true", "f:1:2: ", "unknown key continous", "continuous"},
      {"[continuous]\nfrequncy = 19", "f:2:1: ", "unknown key continuous.frequncy", "frequency"},
      {"frequency = 19", "f:1:1: ", "unknown key frequency", "table [continuous]"},
      {"enabled = true", "f:1:1: ", "unknown key enabled", "table [continuous]"},
      {"[continuous]\nlog_level = \"info\"", "f:2:1: ", "unknown key continuous.log_level",
       "before the first [table]"},
      {"continuous = true", "f:1:14: ", "continuous must be a table", "[continuous]"},
      {"[socket]\na = 1", "f:1:", "socket must be a string", ""},
      {"socket = 3", "f:1:10: ", "socket must be a string", ""},
      {"socket = \"\"", "f:1:10: ", "not empty", ""},
      {"socket = \"run/s\"", "f:1:10: ", "an absolute path", ""},
      {"log_level = \"inf\"", "f:1:13: ", "cannot be \"inf\"", "info"},
      {"log_level = \"loud\"",
       "f:1:13: ", "cannot be \"loud\"; must be trace, debug, info, warning or error", ""},
      {"log_level = 3", "f:1:13: ", "must be trace, debug, info, warning or error", ""},
      {"ring_bytes = \"1\"", "f:1:14: ", "must be a size from 64KiB to 256MiB", "64MiB"},
      {"ring_bytes = 1.5", "f:1:14: ", "must be a size", ""},
      {"ring_bytes = 1", "f:1:14: ", "from 64KiB", ""},
      {"ring_bytes = -65536", "f:1:14: ", "from 64KiB", ""},
      {"ring_bytes = 65537", "f:1:14: ", "power of two", ""},
      {"unwind_max_bytes = 1", "f:1:20: ", "from 4MiB to 512MiB", ""},
      {"session_max_bytes = 0", "f:1:21: ", "from 1MiB", ""},
      {"results_max_bytes = 0", "f:1:21: ", "from 1MiB", ""},
      {"[continuous]\nenabled = 1", "f:2:11: ", "must be true or false", ""},
      {"[continuous]\nenabled = \"yes\"", "f:2:11: ", "must be true or false", ""},
      {"[continuous]\nenabled = yes", "f:2:", "", "true or false"},
      {"log_level = info", "f:1:", "", "double quotes"},
      {"[continuous]\nwindow = 60", "f:2:10: ", "a time from 1s to 1h", "90s"},
      {"[continuous]\nwindow = \"2h\"", "f:2:10: ", "a time from 1s to 1h", ""},
      {"[continuous]\nfrequency = 0", "f:2:13: ", "from 1 to 999", ""},
      {"[continuous]\nmax_age = \"7 days\"", "f:2:11: ", "a time from 1m to 366d", ""},
      {"[continuous]\nmax_bytes = \"1GB\"", "f:2:13: ", "a size from 1MiB", ""},
      {"[jit]\ndirectories = \"/x\"", "f:2:15: ", "a list of at most 60 paths", ""},
      {"[jit]\ndirectories = [\"x\"]", "f:2:15: ", "an absolute path", ""},
      {"socket = ", "f:1:", "", ""},
      {"socket = \"/a\"\nsocket = \"/b\"", "f:2:", "", ""},
      {"socket = \"\xff\"", "f:1:", "", ""},
  };
  EXPECT_EQ(parse("socket = \"/a\"\nsocket = \"/b\"").errors.at(0).hint, "");
  for (const BadConfig& bad : table) {
    SCOPED_TRACE(bad.text);
    const ConfigReading reading = parse(bad.text);
    ASSERT_THAT(reading.errors, SizeIs(1));
    EXPECT_THAT(reading.errors[0].message, StartsWith(bad.place));
    EXPECT_THAT(reading.errors[0].message, HasSubstr(bad.message));
    EXPECT_THAT(reading.errors[0].hint, HasSubstr(bad.hint));
  }
}

TEST(Config, ReportsAllInvalidValuesFromTheTop) {
  const ConfigReading reading = parse("zoo = 1\nring_bytes = 1\n[continuous]\na = 1\n");
  ASSERT_THAT(reading.errors, SizeIs(3));
  EXPECT_THAT(reading.errors[0].message, StartsWith("f:1:1: "));
  EXPECT_THAT(reading.errors[1].message, StartsWith("f:2:14: "));
  EXPECT_THAT(reading.errors[2].message, StartsWith("f:4:1: "));
}

TEST(Config, ShowsEachValueAsItReadsIt) {
  const Config config = parse(kEveryKey).config;
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    text += std::string(key.name) + " = " + key.show(config) + "\n";
  }
  const ConfigReading again = parse(text);
  EXPECT_THAT(again.errors, IsEmpty()) << text;
  EXPECT_EQ(again.config, config) << text;
}

// Files in a directory of their own.
class ConfigFiles : public testing::Test {
 protected:
  ConfigFiles() {
    std::filesystem::create_directory(directory_.path() / "conf.d");
    source_.file = directory_.path() / "profd.toml";
  }

  [[nodiscard]] std::string path(const std::string& name) const { return directory_.path() / name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }

  [[nodiscard]] ConfigReading read() const { return read_config(source_); }

  TemporaryDirectory directory_;
  ConfigSource source_;
};

TEST_F(ConfigFiles, AreNotNeeded) {
  std::filesystem::remove(path("conf.d"));
  const ConfigReading reading = read();
  EXPECT_THAT(reading.errors, IsEmpty());
  EXPECT_THAT(reading.files, IsEmpty());
  EXPECT_EQ(reading.config, Config{});
}

TEST_F(ConfigFiles, AreNeededWhenTheyWereNamed) {
  source_.file_was_named = true;
  const ConfigReading reading = read();
  ASSERT_THAT(reading.errors, SizeIs(1));
  EXPECT_EQ(reading.errors[0].code, ErrorCode::kNotFound);
  EXPECT_THAT(reading.errors[0].message, HasSubstr(source_.file));
}

TEST_F(ConfigFiles, AreReadInTheOrderOfTheirNamesAndTheCommandLineIsLast) {
  write("profd.toml",
        "log_level = \"error\"\nstate_dir = \"/a\"\nsocket = \"/a\"\nring_bytes = 65536");
  write("conf.d/20-b.toml", "log_level = \"trace\"\n");
  write("conf.d/10-a.toml", "\nlog_level = \"debug\"\nsocket = \"/b\"\n");
  write("conf.d/30-c.toml.dpkg-old", "log_level = \"info\"\n");
  write("conf.d/.40-d.toml", "log_level = \"info\"\n");
  source_.command_line["state_dir"] = "/z";
  const ConfigReading reading = read();
  EXPECT_THAT(reading.errors, IsEmpty());
  EXPECT_EQ(reading.config.log_level, "trace");
  EXPECT_EQ(reading.config.socket, "/b");
  EXPECT_EQ(reading.config.state_dir, "/z");
  EXPECT_EQ(reading.config.ring_bytes, 65536U);
  EXPECT_THAT(reading.files,
              ElementsAre(path("profd.toml"), path("conf.d/10-a.toml"), path("conf.d/20-b.toml")));
  EXPECT_EQ(reading.origins.at("log_level"), path("conf.d/20-b.toml") + ":1");
  EXPECT_EQ(reading.origins.at("socket"), path("conf.d/10-a.toml") + ":3");
  EXPECT_EQ(reading.origins.at("state_dir"), "command line");
  EXPECT_EQ(reading.origins.at("ring_bytes"), path("profd.toml") + ":4");
}

TEST_F(ConfigFiles, ReportTheInvalidValuesOfAllOfThem) {
  write("profd.toml", "a = 1");
  write("conf.d/a.toml", "= 2");
  source_.command_line["socket"] = "relative";
  const ConfigReading reading = read();
  ASSERT_THAT(reading.errors, SizeIs(3));
  EXPECT_THAT(reading.errors[0].message, StartsWith(path("profd.toml") + ":1:1: "));
  EXPECT_THAT(reading.errors[1].message, StartsWith(path("conf.d/a.toml") + ":1:"));
  EXPECT_THAT(reading.errors[2].message, StartsWith("command line: socket "));
}

TEST_F(ConfigFiles, ReportAFewOfManyErrors) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "key" + std::to_string(i) + " = 1\n";
  write("profd.toml", text);
  const ConfigReading reading = read();
  ASSERT_THAT(reading.errors, SizeIs(21));
  EXPECT_EQ(reading.errors[20].message, "and 10 more errors");
}

ConfigInfo::Value value_of(const RunningConfig& config, const std::string& key) {
  for (const ConfigInfo::Value& value : config.describe().values) {
    if (value.key == key) return value;
  }
  ADD_FAILURE() << "no " << key;
  return {};
}

TEST_F(ConfigFiles, TakeEffectWhenTheyAreReadAgain) {
  write("profd.toml", "log_level = \"error\"\n");
  RunningConfig config(source_, read());
  write("conf.d/a.toml", "log_level = \"debug\"\n[continuous]\nenabled = true\n");
  const RunningConfig::Reload reload = config.reload();
  EXPECT_THAT(reload.errors, IsEmpty());
  EXPECT_THAT(reload.applied, ElementsAre("log_level", "continuous.enabled"));
  EXPECT_THAT(reload.need_restart, IsEmpty());
  EXPECT_EQ(config.config().log_level, "debug");
  EXPECT_TRUE(config.config().continuous.enabled);
  EXPECT_EQ(value_of(config, "log_level").origin, path("conf.d/a.toml") + ":1");
}

TEST_F(ConfigFiles, WaitForARestartWhereARunningDaemonCanNotFollow) {
  write("profd.toml", "ring_bytes = \"128KiB\"\nlog_level = \"error\"\n");
  RunningConfig config(source_, read());
  write("profd.toml", "\nring_bytes = \"256KiB\"\nlog_level = \"info\"\nsocket = \"/s\"\n");
  const RunningConfig::Reload reload = config.reload();
  EXPECT_THAT(reload.applied, ElementsAre("log_level"));
  EXPECT_THAT(reload.need_restart, ElementsAre("socket", "ring_bytes"));
  EXPECT_EQ(config.config().ring_bytes, 131072U);
  const ConfigInfo::Value rings = value_of(config, "ring_bytes");
  EXPECT_EQ(rings.value, "\"128KiB\"");
  EXPECT_EQ(rings.origin, path("profd.toml") + ":1");
  EXPECT_EQ(rings.after_restart, "\"256KiB\"");
  const ConfigInfo::Value socket = value_of(config, "socket");
  EXPECT_EQ(socket.value, "\"/run/profd/profd.sock\"");
  EXPECT_EQ(socket.origin, "default");
  EXPECT_EQ(socket.after_restart, "\"/s\"");
  write("profd.toml", "ring_bytes = \"128KiB\"\n");
  EXPECT_THAT(config.reload().need_restart, IsEmpty());
  EXPECT_EQ(value_of(config, "ring_bytes").after_restart, std::nullopt);
}

TEST_F(ConfigFiles, ChangeNothingWhenTheyAreBroken) {
  write("profd.toml", "log_level = \"error\"\n");
  RunningConfig config(source_, read());
  write("profd.toml", "log_level = \"debug\"\nzoo = 1\n");
  const RunningConfig::Reload reload = config.reload();
  ASSERT_THAT(reload.errors, SizeIs(1));
  EXPECT_THAT(reload.applied, IsEmpty());
  EXPECT_EQ(config.config().log_level, "error");
  EXPECT_THAT(config.describe().problems,
              ElementsAre(HasSubstr(path("profd.toml") + ":2:1: unknown key zoo")));
  write("profd.toml", "log_level = \"debug\"\n");
  EXPECT_THAT(config.reload().errors, IsEmpty());
  EXPECT_THAT(config.describe().problems, IsEmpty());
  EXPECT_EQ(config.config().log_level, "debug");
}

}  // namespace
}  // namespace profd
