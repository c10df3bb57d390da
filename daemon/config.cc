#include "daemon/config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include <toml++/toml.h>

#include "daemon/file_io.h"
#include "formats/nearest_name.h"

namespace profd {
namespace {

constexpr std::array<std::string_view, 6> kKeys = {
    "socket", "state_dir", "log_level", "ring_bytes", "session_max_bytes", "unwind_max_bytes"};
constexpr std::array<std::string_view, 5> kLogLevels = {"trace", "debug", "info", "warning",
                                                        "error"};
constexpr std::int64_t kMinRingBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMaxRingBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMinUnwindBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMaxUnwindBytes = std::int64_t{512} << 20;
constexpr std::int64_t kMinSessionBytes = std::int64_t{1} << 20;

std::string place(const std::string& file, const toml::source_position& where) {
  return file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": ";
}

// Reads a table's values one by one; the first that is wrong stays as the error.
class ConfigReader {
 public:
  ConfigReader(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

  void refuse_unknown_keys() {
    for (const auto& [key, value] : table_) {
      const auto nearest = nearest_names(key.str(), kKeys);
      const bool known = !nearest.empty() && nearest.front() == key.str();
      if (!known) complain(key.source(), "unknown key " + std::string(key), did_you_mean(nearest));
    }
  }

  void read(std::string_view key, std::string& value) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const std::optional<std::string> text = node->value_exact<std::string>();
    if (!text || text->empty()) {
      complain(node->source(), std::string(key) + " must be a string that is not empty");
    } else {
      value = *text;
    }
  }

  void read_choice(std::string_view key, std::span<const std::string_view> choices,
                   std::string& value) {
    read(key, value);
    const toml::node* node = table_.get(key);
    if (node == nullptr || std::ranges::find(choices, value) != choices.end()) return;
    complain(node->source(), std::string(key) + " can't be \"" + value + "\"",
             did_you_mean(nearest_names(value, choices)));
  }

  template <class Number>
  void read(std::string_view key, std::int64_t least, std::int64_t most, Number& value) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const std::optional<std::int64_t> number = node->value_exact<std::int64_t>();
    if (!number || *number < least || *number > most) {
      complain(node->source(), std::string(key) + " must be a number from " +
                                   std::to_string(least) + " to " + std::to_string(most));
    } else {
      value = static_cast<Number>(*number);
    }
  }

  void require_power_of_two(std::string_view key, std::uint64_t value) {
    const toml::node* node = table_.get(key);
    if (node == nullptr || std::has_single_bit(value)) return;
    complain(node->source(), std::string(key) + " must be a power of two");
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  void complain(const toml::source_region& where, const std::string& what, std::string hint = {}) {
    if (error_) return;
    error_ = fail(ErrorCode::kInvalidArgument, place(file_, where.begin) + what, std::move(hint));
  }

  const toml::table& table_;
  const std::string& file_;
  std::optional<Error> error_;
};

Result<Config> read_table(const toml::table& table, const std::string& file) {
  Config config;
  ConfigReader reader(table, file);
  reader.refuse_unknown_keys();
  reader.read("socket", config.socket);
  reader.read("state_dir", config.state_dir);
  reader.read_choice("log_level", kLogLevels, config.log_level);
  reader.read("ring_bytes", kMinRingBytes, kMaxRingBytes, config.ring_bytes);
  reader.require_power_of_two("ring_bytes", config.ring_bytes);
  reader.read("session_max_bytes", kMinSessionBytes, std::numeric_limits<std::int64_t>::max(),
              config.session_max_bytes);
  reader.read("unwind_max_bytes", kMinUnwindBytes, kMaxUnwindBytes, config.unwind_max_bytes);
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& file_name) {
  try {
    return read_table(toml::parse(text), file_name);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kMalformed,
                place(file_name, error.source().begin) + std::string(error.description()));
  }
}

Result<Config> load_config(const std::string& path) {
  const Result<std::string> text = read_whole_file(path);
  if (!text) return text.error();
  return parse_config(*text, path);
}

}  // namespace profd
