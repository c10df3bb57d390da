// Bytes of a CPU profile, written slot by slot as the format's document has it: the tests' own
// encoder.

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace profd::test {

struct SlotShape {
  unsigned bytes = 8;
  std::endian order = std::endian::little;
};

inline std::string slots(const std::vector<std::uint64_t>& values, SlotShape shape = {}) {
  std::string bytes;
  for (const std::uint64_t value : values) {
    for (unsigned i = 0; i < shape.bytes; ++i) {
      const unsigned place = shape.order == std::endian::little ? i : shape.bytes - 1 - i;
      bytes += static_cast<char>(value >> (8 * place));
    }
  }
  return bytes;
}

}  // namespace profd::test
