#include "daemon/service/config_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

#include "formats/base/log_text.h"
#include "formats/base/nearest_name.h"
#include "formats/base/quantity_text.h"

namespace profd {
namespace {

using std::chrono::seconds;

constexpr bool kReloads = true;
constexpr bool kNeedsRestart = false;
constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kEiB = std::uint64_t{1} << 60;
constexpr std::array<std::string_view, 5> kLogLevels = {"trace", "debug", "info", "warning",
                                                        "error"};

Error invalid(std::string what, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), std::move(hint));
}

// "trace, debug or info"
std::string one_of(std::span<const std::string_view> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += i == 0 ? "" : (i + 1 == values.size() ? " or " : ", ");
    text += values[i];
  }
  return text;
}

Result<void> read_text(const toml::node& node, std::string& value) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  if (!text || text->empty()) return invalid("must be a string that is not empty");
  value = *text;
  return {};
}

// Absolute, since the daemon's working directory is /.
Result<void> read_path(const toml::node& node, std::string& value) {
  std::string text;
  if (auto read = read_text(node, text); !read) return read;
  if (!text.starts_with('/')) return invalid("must be an absolute path");
  value = text;
  return {};
}

Result<void> read_paths(const toml::node& node, std::vector<std::string>& value) {
  constexpr std::size_t kMaxPaths = 60;
  const toml::array* const list = node.as_array();
  if (list == nullptr || list->size() > kMaxPaths) {
    return invalid("must be a list of at most " + std::to_string(kMaxPaths) + " paths");
  }
  std::vector<std::string> paths;
  for (const toml::node& entry : *list) {
    if (auto read = read_path(entry, paths.emplace_back()); !read) return read;
  }
  value = std::move(paths);
  return {};
}

// "" is valid: none.
Result<void> read_path_or_none(const toml::node& node, std::string& value) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  if (!text || !text->empty()) return read_path(node, value);
  value.clear();
  return {};
}

Result<void> read_log_level(const toml::node& node, std::string& value) {
  std::string text;
  if (auto read = read_text(node, text); !read) return invalid("must be " + one_of(kLogLevels));
  if (std::ranges::find(kLogLevels, text) == kLogLevels.end()) {
    return invalid("cannot be \"" + log_text(text) + "\"; must be " + one_of(kLogLevels),
                   did_you_mean(nearest_names(text, kLogLevels)));
  }
  value = text;
  return {};
}

Result<void> read_flag(const toml::node& node, bool& value) {
  const std::optional<bool> flag = node.value_exact<bool>();
  if (!flag) return invalid("must be true or false");
  value = *flag;
  return {};
}

template <std::int64_t kLeast, std::int64_t kMost>
Result<void> read_number(const toml::node& node, std::uint64_t& value) {
  const std::optional<std::int64_t> number = node.value_exact<std::int64_t>();
  if (!number || *number < kLeast || *number > kMost) {
    return invalid("must be a number from " + std::to_string(kLeast) + " to " +
                   std::to_string(kMost));
  }
  value = static_cast<std::uint64_t>(*number);
  return {};
}

// A string with a unit, or a number of bytes.
template <std::uint64_t kLeast, std::uint64_t kMost>
Result<void> read_bytes(const toml::node& node, std::uint64_t& value) {
  std::optional<std::uint64_t> bytes;
  if (const auto text = node.value_exact<std::string>()) bytes = parse_bytes(*text);
  if (const auto number = node.value_exact<std::int64_t>(); number && *number >= 0) {
    bytes = static_cast<std::uint64_t>(*number);
  }
  if (!bytes || *bytes < kLeast || *bytes > kMost) {
    return invalid(
        "must be a size from " + exact_bytes_text(kLeast) + " to " + exact_bytes_text(kMost),
        "write it like \"64MiB\", or as a number of bytes");
  }
  value = *bytes;
  return {};
}

// Whole seconds. A number without a unit is refused.
template <seconds::rep kLeast, seconds::rep kMost>
Result<void> read_duration(const toml::node& node, seconds& value) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  const auto duration = text ? parse_duration(*text) : std::nullopt;
  if (!duration || *duration < seconds(kLeast) || *duration > seconds(kMost)) {
    return invalid("must be a time from " + exact_duration_text(seconds(kLeast)) + " to " +
                       exact_duration_text(seconds(kMost)),
                   "write it like \"90s\", \"10m\", \"12h\" or \"7d\"");
  }
  value = std::chrono::duration_cast<seconds>(*duration);
  return {};
}

Result<void> read_ring_bytes(const toml::node& node, std::uint64_t& value) {
  std::uint64_t bytes = 0;
  if (auto read = read_bytes<64 * kKiB, 256 * kMiB>(node, bytes); !read) return read;
  if (!std::has_single_bit(bytes)) return invalid("must be a power of two");
  value = bytes;
  return {};
}

std::string quoted(const std::string& text) {
  const toml::value<std::string> value(text);
  std::ostringstream out;
  out << toml::toml_formatter(value, toml::format_flags::none);
  return out.str();
}

std::string list_text(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ", ";
    list += quoted(text);
  }
  return list + "]";
}

std::string size_text(const std::uint64_t& bytes) { return quoted(exact_bytes_text(bytes)); }
std::string time_text(const seconds& time) { return quoted(exact_duration_text(time)); }
std::string number_text(const std::uint64_t& number) { return std::to_string(number); }
std::string flag_text(const bool& flag) { return flag ? "true" : "false"; }

auto& member(auto& config, auto Config::*member) { return config.*member; }
auto& member(auto& config, auto ContinuousConfig::*member) { return config.continuous.*member; }

// The key of a member of Config or of ContinuousConfig.
template <auto kMember, auto kRead, auto kShow>
constexpr ConfigKey key(std::string_view name, bool reloads) {
  return {name, reloads,
          [](const toml::node& node, Config& to) { return kRead(node, member(to, kMember)); },
          [](const Config& from) { return kShow(member(from, kMember)); }};
}

constexpr seconds::rep kMinute = 60;
constexpr seconds::rep kHour = 60 * kMinute;
constexpr seconds::rep kDay = 24 * kHour;
constexpr seconds::rep kYear = 366 * kDay;
using Continuous = ContinuousConfig;

constexpr auto kKeys = std::to_array<ConfigKey>({
    key<&Config::socket, read_path, quoted>("socket", kNeedsRestart),
    key<&Config::state_dir, read_path, quoted>("state_dir", kNeedsRestart),
    key<&Config::log_level, read_log_level, quoted>("log_level", kReloads),
    key<&Config::ring_bytes, read_ring_bytes, size_text>("ring_bytes", kNeedsRestart),
    key<&Config::session_max_bytes, read_bytes<kMiB, kEiB>, size_text>("session_max_bytes",
                                                                       kReloads),
    key<&Config::results_max_bytes, read_bytes<kMiB, kEiB>, size_text>("results_max_bytes",
                                                                       kReloads),
    key<&Config::unwind_max_bytes, read_bytes<4 * kMiB, 512 * kMiB>, size_text>("unwind_max_bytes",
                                                                                kNeedsRestart),
    key<&Continuous::enabled, read_flag, flag_text>("continuous.enabled", kReloads),
    key<&Continuous::window, read_duration<1, kHour>, time_text>("continuous.window", kReloads),
    key<&Continuous::frequency_hz, read_number<1, 999>, number_text>("continuous.frequency",
                                                                     kReloads),
    key<&Continuous::max_age, read_duration<kMinute, kYear>, time_text>("continuous.max_age",
                                                                        kReloads),
    key<&Continuous::hours_max_age, read_duration<kMinute, kYear>, time_text>(
        "continuous.hours_max_age", kReloads),
    key<&Continuous::max_bytes, read_bytes<kMiB, kEiB>, size_text>("continuous.max_bytes",
                                                                   kReloads),
    key<&Continuous::off_cpu, read_flag, flag_text>("continuous.off_cpu", kReloads),
    key<&Continuous::ask_runtime, read_flag, flag_text>("continuous.ask_runtime", kReloads),
    key<&Config::jit_directories, read_paths, list_text>("jit.directories", kNeedsRestart),
    key<&Config::xray_directory, read_path_or_none, quoted>("xray.directory", kNeedsRestart),
});

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

const ConfigKey* find_config_key(std::string_view name) {
  const auto* const found = std::ranges::find(kKeys, name, &ConfigKey::name);
  return found == kKeys.end() ? nullptr : found;
}

std::string_view table_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

const ConfigKey* find_in_any_table(std::string_view name) {
  const auto* const found = std::ranges::find_if(kKeys, [name](const ConfigKey& key) {
    return key.name.substr(table_of(key.name).empty() ? 0 : table_of(key.name).size() + 1) == name;
  });
  return found == kKeys.end() ? nullptr : found;
}

std::vector<std::string_view> names_in(std::string_view table) {
  const std::string prefix = table.empty() ? std::string() : std::string(table) + ".";
  std::vector<std::string_view> names;
  for (const ConfigKey& key : kKeys) {
    if (!key.name.starts_with(prefix)) continue;
    std::string_view name = key.name.substr(prefix.size());
    name = name.substr(0, name.find('.'));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace profd
