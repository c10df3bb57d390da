// Reads jitdumps as they grow, and keeps the events.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jit/jitdump_reader.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {

inline constexpr std::uint64_t kCode = 0x7f0000001000;

[[nodiscard]] std::string data_file(const std::string& name);

[[nodiscard]] inline JitDumpLoad load_of(std::string_view name, std::uint64_t address,
                                         std::string_view code = "\x90\xc3") {
  return {.timestamp = 1000, .pid = 7, .tid = 8, .address = address, .name = name, .code = code};
}

struct ReadJitDump {
  std::vector<JitDumpEvent> events;  // names borrowed from `file`
  std::array<std::uint64_t, kJitDumpFaults> malformed{};
  JitDumpState state;
  std::uint64_t records = 0;

  [[nodiscard]] std::uint64_t malformed_by(JitDumpFault fault) const {
    return malformed[static_cast<std::size_t>(fault)];
  }
  [[nodiscard]] std::uint64_t all_malformed() const;
  [[nodiscard]] std::vector<std::string> names() const;
};

// `file` grows by `step` bytes before each call, of which at most `read_bytes` are given at once.
// A file that is no jitdump fails the test.
[[nodiscard]] ReadJitDump read_growing(std::string_view file, std::size_t step,
                                       std::size_t read_bytes = kMinJitDumpRead);
[[nodiscard]] ReadJitDump read_whole(std::string_view file);

[[nodiscard]] std::string_view part_of(std::string_view file, const JitFileRange& range);

// Overwrites a number of a record, little endian.
template <class T>
void set_bytes(std::string& file, std::size_t at, T value) {
  file.replace(at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace profd::test
