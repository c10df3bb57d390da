// The content of jitdump's DEBUG and UNWINDING records; for jitdump_reader.cc.

#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "formats/jit/jitdump_reader.h"

namespace profd {

[[nodiscard]] inline std::endian order_of(const JitDumpState& state) {
  return state.big_endian ? std::endian::big : std::endian::little;
}

// A DEBUG record's vote for a line bias: 1 if its lowest entry lies where a biased first line does,
// -1 if it lies elsewhere, 0 without entries. The record may be cut.
[[nodiscard]] int line_bias_vote(std::string_view record, std::endian order);

// Whether the bytes start like an eh_frame_hdr: version 1, then three pointer encodings. An
// eh_frame starts with the length of a CIE, which is a multiple of 4.
[[nodiscard]] bool is_eh_frame_hdr(std::string_view bytes);

}  // namespace profd
