#include "daemon/service/running_config.h"

#include <utility>

#include <toml++/toml.h>

#include "daemon/service/config_keys.h"
#include "formats/api/utc_time.h"

namespace profd {
namespace {

constexpr const char* kDefault = "default";

std::string one_line(const Error& error) {
  return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

// Whatever a key may be, its text in the file is the way from one Config to another.
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

ConfigInForce::ConfigInForce(ConfigSource source, ConfigReading reading)
    : source_(std::move(source)),
      in_force_(std::move(reading)),
      on_disk_(in_force_.config),
      read_(utc_text(std::chrono::system_clock::now())) {}

ConfigInForce::Reload ConfigInForce::reload() {
  ConfigReading fresh = read_config(source_);
  Reload reload;
  problems_.clear();
  for (const Error& error : fresh.errors) problems_.push_back(one_line(error));
  if (!fresh.errors.empty()) {
    reload.errors = std::move(fresh.errors);
    return reload;
  }
  on_disk_ = fresh.config;
  for (const ConfigKey& key : config_keys()) {
    if (key.show(fresh.config) == key.show(in_force_.config)) continue;
    (key.reloads ? reload.applied : reload.need_restart).emplace_back(key.name);
    if (!key.reloads) keep_value(key, in_force_, fresh);
  }
  in_force_ = std::move(fresh);
  read_ = utc_text(std::chrono::system_clock::now());
  return reload;
}

ConfigInfo ConfigInForce::describe() const {
  ConfigInfo info{.values = {}, .files = in_force_.files, .read = read_, .problems = problems_};
  for (const ConfigKey& key : config_keys()) {
    const auto origin = in_force_.origins.find(key.name);
    ConfigInfo::Value value{.key = std::string(key.name),
                            .value = key.show(in_force_.config),
                            .origin = origin == in_force_.origins.end() ? kDefault : origin->second,
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
