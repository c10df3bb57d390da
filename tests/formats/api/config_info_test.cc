#include "formats/api/config_info.h"

#include <gmock/gmock.h>

namespace profd {
namespace {

ConfigInfo sample_config() {
  return {.values = {{.key = "log_level",
                      .value = "\"info\"",
                      .origin = "/etc/profd/conf.d/a.toml:3",
                      .reloads = true,
                      .after_restart = std::nullopt},
                     {.key = "ring_bytes",
                      .value = "\"1MiB\"",
                      .origin = "default",
                      .reloads = false,
                      .after_restart = "\"2MiB\""}},
          .files = {"/etc/profd/profd.toml", "/etc/profd/conf.d/a.toml"},
          .read = "2026-03-01T14:05:00Z",
          .problems = {"f:1:1: unknown key \"x\""}};
}

TEST(ConfigInfo, ReadsWhatItWrites) {
  const auto read = parse_config_info(to_json(sample_config()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, sample_config());
}

TEST(ConfigInfo, RefusesOtherShapes) {
  for (const char* text : {"", "[]", "{}", "{\"values\":{}}",
                           "{\"values\":[{\"key\":1}],\"files\":[],\"read\":\"\",\"problems\":[]}",
                           "{\"values\":[],\"files\":[3],\"read\":\"\",\"problems\":[]}"}) {
    EXPECT_FALSE(parse_config_info(text)) << text;
  }
}

}  // namespace
}  // namespace profd
