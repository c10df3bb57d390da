// Reads the configuration: TOML files, then the command line, which has the last word.
//
// The file is /etc/profd/profd.toml unless another was named; then come the *.toml of the directory
// conf.d beside it, in the order of their names. A later value replaces an earlier one, key by key.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/service/config.h"
#include "formats/base/result.h"

namespace profd {

inline constexpr const char* kDefaultConfigFile = "/etc/profd/profd.toml";

// Where values come from.
struct ConfigSource {
  std::string file = kDefaultConfigFile;
  bool file_was_named = false;  // then it must be there
  // Keys and their texts, as the command line gave them.
  std::map<std::string, std::string> command_line;
};

struct ConfigReading {
  Config config;
  // By key; one that is not here has its default. "/etc/profd/profd.toml:3" or "command line".
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> files;  // in the order in which they were read
  // All mistakes. Each message begins with FILE:LINE:COLUMN; an unknown key's hint has the nearest
  // known ones. With any, the values are not to be used.
  std::vector<Error> errors;
};

[[nodiscard]] ConfigReading read_config(const ConfigSource& source);

// One text, on top of what `reading` has; `file` names it in origins and errors.
void read_config_text(std::string_view text, const std::string& file, ConfigReading& reading);

}  // namespace profd
