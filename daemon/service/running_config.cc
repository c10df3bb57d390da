#include "daemon/service/running_config.h"

#include <utility>

#include <toml++/toml.h>

#include "daemon/service/config_keys.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

constexpr const char* kDefault = "default";

// Copies a value by way of its text in the file, which works for every type.
void keep_value(const ConfigKey& key, const ConfigReading& from, ConfigReading& to) {
  const toml::table table = toml::parse("value = " + key.show(from.config));
  (void)key.read(*table.get("value"), to.config);
  const auto origin = from.origins.find(key.name);
  if (origin != from.origins.end()) {
    to.origins.insert_or_assign(origin->first, origin->second);
  } else {
    to.origins.erase(std::string(key.name));
  }
}

}  // namespace

RunningConfig::RunningConfig(ConfigSource source, ConfigReading reading)
    : source_(std::move(source)),
      running_(std::move(reading)),
      on_disk_(running_.config),
      read_time_(utc_text(std::chrono::system_clock::now())) {}

RunningConfig::Reload RunningConfig::reload() {
  ConfigReading fresh = read_config(source_);
  Reload reload;
  problems_.clear();
  for (const Error& error : fresh.errors) problems_.push_back(error_text(error));
  if (!fresh.errors.empty()) {
    reload.errors = std::move(fresh.errors);
    return reload;
  }
  on_disk_ = fresh.config;
  for (const ConfigKey& key : config_keys()) {
    if (key.show(fresh.config) == key.show(running_.config)) continue;
    (key.reloads ? reload.applied : reload.need_restart).emplace_back(key.name);
    if (!key.reloads) keep_value(key, running_, fresh);
  }
  running_ = std::move(fresh);
  read_time_ = utc_text(std::chrono::system_clock::now());
  return reload;
}

ConfigInfo RunningConfig::describe() const {
  ConfigInfo info{.values = {}, .files = running_.files, .read = read_time_, .problems = problems_};
  for (const ConfigKey& key : config_keys()) {
    const auto origin = running_.origins.find(key.name);
    ConfigInfo::Value value{.key = std::string(key.name),
                            .value = key.show(running_.config),
                            .origin = origin == running_.origins.end() ? kDefault : origin->second,
                            .reloads = key.reloads,
                            .after_restart = std::nullopt};
    if (std::string wanted = key.show(on_disk_); wanted != value.value) {
      value.after_restart = std::move(wanted);
    }
    info.values.push_back(std::move(value));
  }
  return info;
}

}  // namespace profd
