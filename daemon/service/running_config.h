// The configuration that the daemon runs with, and what becomes of it when its files are read
// again.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/service/config.h"
#include "daemon/service/config_reader.h"
#include "formats/api/config_info.h"
#include "formats/base/result.h"

namespace profd {

class ConfigInForce {
 public:
  // `reading` is what `source` gave, without errors.
  ConfigInForce(ConfigSource source, ConfigReading reading);

  [[nodiscard]] const Config& config() const { return in_force_.config; }

  struct Reload {
    std::vector<std::string> applied;       // keys whose new value is in config() now
    std::vector<std::string> need_restart;  // keys whose new value is not
    std::vector<Error> errors;              // with any, nothing has changed
  };

  // Reads the files again.
  Reload reload();

  [[nodiscard]] ConfigInfo describe() const;

 private:
  ConfigSource source_;
  ConfigReading in_force_;
  Config on_disk_;  // as last read without a mistake
  std::string read_;
  std::vector<std::string> problems_;
};

}  // namespace profd
