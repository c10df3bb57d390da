#include "daemon/service/config_keys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

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
    return invalid("cannot be \"" + text + "\"; must be " + one_of(kLogLevels),
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

Result<void> read_number(const toml::node& node, std::int64_t least, std::int64_t most,
                         std::uint64_t& value) {
  const std::optional<std::int64_t> number = node.value_exact<std::int64_t>();
  if (!number || *number < least || *number > most) {
    return invalid("must be a number from " + std::to_string(least) + " to " +
                   std::to_string(most));
  }
  value = static_cast<std::uint64_t>(*number);
  return {};
}

// A string with a unit, or a number of bytes.
Result<void> read_bytes(const toml::node& node, std::uint64_t least, std::uint64_t most,
                        std::uint64_t& value) {
  std::optional<std::uint64_t> bytes;
  if (const auto text = node.value_exact<std::string>()) bytes = parse_bytes(*text);
  if (const auto number = node.value_exact<std::int64_t>(); number && *number >= 0) {
    bytes = static_cast<std::uint64_t>(*number);
  }
  if (!bytes || *bytes < least || *bytes > most) {
    return invalid(
        "must be a size from " + exact_bytes_text(least) + " to " + exact_bytes_text(most),
        "write it like \"64MiB\", or as a number of bytes");
  }
  value = *bytes;
  return {};
}

// Whole seconds. A number without a unit is refused.
Result<void> read_duration(const toml::node& node, seconds least, seconds most, seconds& value) {
  const std::optional<std::string> text = node.value_exact<std::string>();
  const auto duration = text ? parse_duration(*text) : std::nullopt;
  if (!duration || *duration < least || *duration > most) {
    return invalid(
        "must be a time from " + exact_duration_text(least) + " to " + exact_duration_text(most),
        "write it like \"90s\", \"10m\", \"12h\" or \"7d\"");
  }
  value = std::chrono::duration_cast<seconds>(*duration);
  return {};
}

Result<void> read_ring_bytes(const toml::node& node, std::uint64_t& value) {
  std::uint64_t bytes = 0;
  if (auto read = read_bytes(node, 64 * kKiB, 256 * kMiB, bytes); !read) return read;
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

std::string size_text(std::uint64_t bytes) { return quoted(exact_bytes_text(bytes)); }
std::string time_text(seconds time) { return quoted(exact_duration_text(time)); }

constexpr auto kKeys = std::to_array<ConfigKey>({
    {"socket", kNeedsRestart,
     [](const toml::node& node, Config& to) { return read_path(node, to.socket); },
     [](const Config& from) { return quoted(from.socket); }},
    {"state_dir", kNeedsRestart,
     [](const toml::node& node, Config& to) { return read_path(node, to.state_dir); },
     [](const Config& from) { return quoted(from.state_dir); }},
    {"log_level", kReloads,
     [](const toml::node& node, Config& to) { return read_log_level(node, to.log_level); },
     [](const Config& from) { return quoted(from.log_level); }},
    {"ring_bytes", kNeedsRestart,
     [](const toml::node& node, Config& to) { return read_ring_bytes(node, to.ring_bytes); },
     [](const Config& from) { return size_text(from.ring_bytes); }},
    {"session_max_bytes", kReloads,
     [](const toml::node& node, Config& to) {
       return read_bytes(node, kMiB, kEiB, to.session_max_bytes);
     },
     [](const Config& from) { return size_text(from.session_max_bytes); }},
    {"unwind_max_bytes", kNeedsRestart,
     [](const toml::node& node, Config& to) {
       return read_bytes(node, 4 * kMiB, 512 * kMiB, to.unwind_max_bytes);
     },
     [](const Config& from) { return size_text(from.unwind_max_bytes); }},
    {"continuous.enabled", kReloads,
     [](const toml::node& node, Config& to) { return read_flag(node, to.continuous.enabled); },
     [](const Config& from) { return std::string(from.continuous.enabled ? "true" : "false"); }},
    {"continuous.window", kReloads,
     [](const toml::node& node, Config& to) {
       return read_duration(node, seconds(1), std::chrono::hours(1), to.continuous.window);
     },
     [](const Config& from) { return time_text(from.continuous.window); }},
    {"continuous.frequency", kReloads,
     [](const toml::node& node, Config& to) {
       return read_number(node, 1, 999, to.continuous.frequency_hz);
     },
     [](const Config& from) { return std::to_string(from.continuous.frequency_hz); }},
    {"continuous.max_age", kReloads,
     [](const toml::node& node, Config& to) {
       return read_duration(node, std::chrono::minutes(1), std::chrono::hours(24 * 366),
                            to.continuous.max_age);
     },
     [](const Config& from) { return time_text(from.continuous.max_age); }},
    {"continuous.max_bytes", kReloads,
     [](const toml::node& node, Config& to) {
       return read_bytes(node, kMiB, kEiB, to.continuous.max_bytes);
     },
     [](const Config& from) { return size_text(from.continuous.max_bytes); }},
    {"jit.directories", kNeedsRestart,
     [](const toml::node& node, Config& to) { return read_paths(node, to.jit_directories); },
     [](const Config& from) { return list_text(from.jit_directories); }},
    {"xray.directory", kNeedsRestart,
     [](const toml::node& node, Config& to) { return read_path_or_none(node, to.xray_directory); },
     [](const Config& from) { return quoted(from.xray_directory); }},
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
