// Code as a JIT makes it, without frame pointers: functions that call each other down to one that
// never returns, in anonymous memory, with rbp in use for data. And the call frame information that
// leads through it, as V8 writes it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profd::test {

struct FramedFunction {
  std::string name;
  std::uint64_t address = 0;
  std::string code;
  std::string eh_frame;  // and its header: the data of an UNWINDING_INFO record
  std::uint64_t eh_frame_hdr_bytes = 0;
};

// So many functions from an address on, the last one the leaf. 128 bytes each.
[[nodiscard]] std::vector<FramedFunction> make_framed_code(std::uint64_t address,
                                                           std::size_t functions);

}  // namespace profd::test
