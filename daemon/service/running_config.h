// The configuration that the daemon runs with, and its reload.

#pragma once

#include <string>
#include <vector>

#include "daemon/service/config.h"
#include "daemon/service/config_reader.h"
#include "formats/api/config_info.h"
#include "formats/base/result.h"

namespace profd {

class RunningConfig {
 public:
  // `reading` is what read_config(source) returned, without errors.
  RunningConfig(ConfigSource source, ConfigReading reading);

  [[nodiscard]] const Config& config() const { return running_.config; }

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
  ConfigReading running_;
  Config on_disk_;  // as last read without an error
  std::string read_time_;
  std::vector<std::string> problems_;  // of the last reload
};

}  // namespace profd
