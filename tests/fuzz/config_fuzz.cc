// Any text as the configuration file. A text without errors is shown key by key, and that text
// gives an equal configuration.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/service/config_keys.h"
#include "daemon/service/config_reader.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;

constexpr std::string_view kFile = "profd.toml";

std::string show(const Config& config) {
  std::string text;
  for (const ConfigKey& key : config_keys()) {
    text.append(key.name).append(" = ").append(key.show(config)).append("\n");
  }
  return text;
}

ConfigReading read(std::string_view text) {
  ConfigReading reading;
  read_config_text(text, std::string(kFile), reading);
  return reading;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConfigReading reading = read({reinterpret_cast<const char*>(data), size});
  if (!reading.errors.empty()) {
    require(
        std::ranges::all_of(reading.errors,
                            [](const Error& error) { return error.message.starts_with(kFile); }),
        "an error has its place");
    return 0;
  }
  const ConfigReading again = read(show(reading.config));
  require(again.errors.empty(), "what was shown can be read");
  require(again.config == reading.config, "it is the same configuration");
  return 0;
}
