// Every key of the configuration, in one table: how it is read, how it is shown, and whether a
// running daemon can take a new value.

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
  std::string_view name;  // "log_level", or "continuous.window" for one in a table
  bool reloads;           // SIGHUP brings a new value into force; else a restart does

  // An error says what is wrong with the value, but not where it stands.
  Result<void> (*read)(const toml::node& node, Config& config);

  // The value as it would stand in the file.
  std::string (*show)(const Config& config);
};

[[nodiscard]] std::span<const ConfigKey> config_keys();

// Null when there is none of that name.
[[nodiscard]] const ConfigKey* find_config_key(std::string_view name);

// The table of a whole name; empty for a key above all tables.
[[nodiscard]] std::string_view table_of(std::string_view key);

// The key of this name without its table, whichever that is. Null: there is none.
[[nodiscard]] const ConfigKey* find_in_any_table(std::string_view name);

// The names below a table, without it ("window" below "continuous"); at the top, below "", tables
// are names too.
[[nodiscard]] std::vector<std::string_view> names_below(std::string_view table);

}  // namespace profd
