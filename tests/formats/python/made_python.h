// ELF files that look like CPython to its recogniser: exported symbols, a version, two functions
// that lead to a thread's state, and a loop of two parts. One segment, at kBase.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace profd::test {

struct MadePython {
  static constexpr std::uint64_t kBase = 0x400000;
  // Offsets in the file; the addresses are higher by kBase.
  static constexpr std::uint64_t kDynamic = 0x200;
  static constexpr std::uint64_t kHash = 0x400;
  static constexpr std::uint64_t kSymbols = 0x600;
  static constexpr std::uint64_t kStrings = 0x800;
  static constexpr std::uint64_t kRelocations = 0xa00;
  static constexpr std::uint64_t kGilstate = 0x1000;
  static constexpr std::uint64_t kCurrent = 0x1100;
  static constexpr std::uint64_t kEval = 0x1200;
  static constexpr std::uint64_t kEvalBytes = 0x200;
  static constexpr std::uint64_t kOther = 0x1500;  // another function
  static constexpr std::uint64_t kCold = 0x1800;
  static constexpr std::uint64_t kColdBytes = 0x100;
  static constexpr std::uint64_t kFrameHeader = 0x2000;
  static constexpr std::uint64_t kFrames = 0x2010;
  static constexpr std::uint64_t kVersion = 0x3000;
  static constexpr std::uint64_t kGot = 0x3008;
  static constexpr std::uint64_t kPair = 0x3010;
  static constexpr std::uint64_t kCodeType = 0x3100;
  static constexpr std::uint64_t kRuntime = 0x4000;
  static constexpr std::uint64_t kBytes = 0x5000;

  explicit MadePython(unsigned minor_version);

  [[nodiscard]] std::string bytes() const;
  // The address of the key, by the version.
  [[nodiscard]] std::uint64_t key() const;

  unsigned minor;
  std::uint64_t version;  // PY_VERSION_HEX
  std::uint64_t code_basicsize;
  std::uint64_t runtime_bytes;
  bool is_library = false;  // by the GOT, and by __tls_get_addr()
  bool has_gnu_hash = true;
  std::string needed = "libc.so.6";    // empty: static
  std::vector<std::string> without{};  // symbols
  // Numbers of 8 bytes that are written last, by their offsets in the file.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> changes{};
};

}  // namespace profd::test
