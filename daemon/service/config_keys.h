// The table of all configuration keys: how to read and show each, and whether a reload applies it.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "daemon/service/config.h"
#include "formats/base/result.h"

namespace profd {

struct ConfigKey {
  std::string_view name;  // "log_level", or "continuous.window" for a key of a table
  bool reloads;           // SIGHUP applies a new value; otherwise it needs a restart

  // An error says what is wrong with the value; the caller adds the place.
  Result<void> (*read)(const toml::node& node, Config& config);

  // The value as the file would have it.
  std::string (*show)(const Config& config);
};

[[nodiscard]] std::span<const ConfigKey> config_keys();

// Null: there is no such key. `name` has the table.
[[nodiscard]] const ConfigKey* find_config_key(std::string_view name);

// Finds a key by its name without the table.
[[nodiscard]] const ConfigKey* find_in_any_table(std::string_view name);

// The table of a key's name; empty for a key before the first table.
[[nodiscard]] std::string_view table_of(std::string_view key);

// The names in a table, without it ("window" in "continuous"). In "", the top, tables are names
// too.
[[nodiscard]] std::vector<std::string_view> names_in(std::string_view table);

}  // namespace profd
