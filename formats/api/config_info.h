// What configuration a daemon runs with, and where each value comes from: GET /v1/config of the
// control socket (docs/api.md).

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct ConfigInfo {
  struct Value {
    std::string key;     // "continuous.window"
    std::string value;   // in force, as it would stand in the file
    std::string origin;  // "default", "command line" or "FILE:LINE"
    bool reloads = false;
    // What the files say by now, for a key that waits for a restart.
    std::optional<std::string> after_restart;

    friend bool operator==(const Value&, const Value&) = default;
  };

  std::vector<Value> values;
  std::vector<std::string> files;     // in the order in which they were read
  std::string read;                   // RFC 3339, UTC: when the files were last taken over
  std::vector<std::string> problems;  // why a later try to read them again failed

  friend bool operator==(const ConfigInfo&, const ConfigInfo&) = default;
};

[[nodiscard]] std::string to_json(const ConfigInfo& info);
// Unknown members are skipped.
[[nodiscard]] Result<ConfigInfo> parse_config_info(std::string_view json);

}  // namespace profd
