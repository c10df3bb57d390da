// The configuration of a running daemon and the origin of each value: GET /v1/config of the control
// socket (docs/api.md).

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct ConfigInfo {
  struct Value {
    std::string key;       // "continuous.window"
    std::string value;     // the running one, in the syntax of the file
    std::string origin;    // "default", "command line" or "FILE:LINE"
    bool reloads = false;  // a new value takes effect without a restart
    // The value that the files have now, if it takes effect only after a restart.
    std::optional<std::string> after_restart;

    friend bool operator==(const Value&, const Value&) = default;
  };

  std::vector<Value> values;
  std::vector<std::string> files;     // in the order in which they were read
  std::string read;                   // RFC 3339, UTC: the last time that the files were applied
  std::vector<std::string> problems;  // the errors of a later attempt to read them

  friend bool operator==(const ConfigInfo&, const ConfigInfo&) = default;
};

[[nodiscard]] std::string to_json(const ConfigInfo& info);
// Unknown members are skipped.
[[nodiscard]] Result<ConfigInfo> parse_config_info(std::string_view json);

}  // namespace profd
