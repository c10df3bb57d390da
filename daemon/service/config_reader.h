// Reads the configuration: TOML files, then the command line, which overrides them.
//
// The file is /etc/profd/profd.toml unless another is named. The *.toml files of the directory
// conf.d beside it follow, in the order of their names. A later value replaces an earlier one, key
// by key.

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
  bool file_was_named = false;  // then it must exist
  // Values of the command line, by key.
  std::map<std::string, std::string> command_line;
};

struct ConfigReading {
  Config config;
  // By key: "/etc/profd/profd.toml:3" or "command line"; a key that is absent has its default.
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> files;  // in the order in which they were read
  // All errors. Each message begins with FILE:LINE:COLUMN; the hint of an unknown key has the
  // nearest known ones. With any error, the values must not be used.
  std::vector<Error> errors;
};

[[nodiscard]] ConfigReading read_config(const ConfigSource& source);

// Reads one text over the values of `reading`; `file` names it in origins and errors.
void read_config_text(std::string_view text, const std::string& file, ConfigReading& reading);

}  // namespace profd
