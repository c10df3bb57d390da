// JIT code without frame pointers: functions in anonymous memory that use rbp for data and call
// each other, down to one that never returns. And its call frame information, as V8 writes it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profd::test {

struct FramedFunction {
  std::string name;
  std::uint64_t address = 0;
  std::string code;
  std::string eh_frame;  // and its header, which together are the data of an UNWINDING_INFO record
  std::uint64_t eh_frame_hdr_bytes = 0;
};

// Functions of 128 bytes each from an address on; the last one is the leaf.
[[nodiscard]] std::vector<FramedFunction> make_framed_code(std::uint64_t address,
                                                           std::size_t functions);

}  // namespace profd::test
