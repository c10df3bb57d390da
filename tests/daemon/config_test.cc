#include "daemon/config.h"

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Config, HasADefaultForEveryKey) {
  const Result<Config> config = parse_config("", "profd.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->socket, "/run/profd/profd.sock");
  EXPECT_EQ(config->state_dir, "/var/lib/profd");
  EXPECT_EQ(config->log_level, "info");
}

TEST(Config, TakesEveryKey) {
  const Result<Config> config = parse_config(
      "socket = \"/tmp/s\"\nstate_dir = \"/tmp/d\"\nlog_level = \"debug\"\n"
      "ring_bytes = 65536\nsession_max_bytes = 2097152\n"
      "unwind_max_bytes = 8388608\n",
      "profd.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->socket, "/tmp/s");
  EXPECT_EQ(config->state_dir, "/tmp/d");
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_EQ(config->ring_bytes, 65536U);
  EXPECT_EQ(config->unwind_max_bytes, 8388608U);
  EXPECT_EQ(config->session_max_bytes, 2097152U);
}

struct BadConfig {
  const char* text;
  const char* place;
  const char* message;
  const char* hint;
};

TEST(Config, NamesThePlaceOfEachMistake) {
  const BadConfig table[] = {
      {"sokcet = \"/tmp/s\"", "f:1:1: ", "unknown key sokcet", "socket"},
      {"socket = \"/a\"\n\n  ring_byte = 1", "f:3:3: ", "unknown key ring_byte", "ring_bytes"},
      {"zzzzzz = 1", "f:1:1: ", "unknown key zzzzzz", ""},
      {"[socket]\na = 1", "f:1:", "socket must be a string", ""},
      {"socket = 3", "f:1:10: ", "socket must be a string", ""},
      {"socket = \"\"", "f:1:10: ", "not empty", ""},
      {"log_level = \"inf\"", "f:1:13: ", "can't be \"inf\"", "info"},
      {"ring_bytes = \"1\"", "f:1:14: ", "must be a number", ""},
      {"ring_bytes = 1.5", "f:1:14: ", "must be a number", ""},
      {"ring_bytes = 1", "f:1:14: ", "from 65536", ""},
      {"ring_bytes = -65536", "f:1:14: ", "from 65536", ""},
      {"unwind_max_bytes = 1", "f:1:20: ", "from 4194304", ""},
      {"ring_bytes = 65537", "f:1:14: ", "power of two", ""},
      {"session_max_bytes = 0", "f:1:21: ", "from 1048576", ""},
      {"socket = ", "f:1:", "", ""},
      {"socket = \"/a\"\nsocket = \"/b\"", "f:2:", "", ""},
      {"socket = \"\xff\"", "f:1:", "", ""},
  };
  for (const BadConfig& bad : table) {
    SCOPED_TRACE(bad.text);
    const Result<Config> config = parse_config(bad.text, "f");
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error().message, StartsWith(bad.place));
    EXPECT_THAT(config.error().message, HasSubstr(bad.message));
    EXPECT_THAT(config.error().hint, HasSubstr(bad.hint));
  }
}

TEST(Config, NamesAFileThatIsNotThere) {
  const Result<Config> config = load_config("/nonexistent/profd.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/profd.toml"));
}

}  // namespace
}  // namespace profd
