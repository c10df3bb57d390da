// What the bodies of jitdump's DEBUG and UNWINDING records hold: parts of jitdump_reader.h.

#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "formats/jit/jitdump_reader.h"

namespace profd {

[[nodiscard]] inline std::endian order_of(const JitDumpState& state) {
  return state.big_endian ? std::endian::big : std::endian::little;
}

// Of a DEBUG record, which may be cut: 1 where its lowest entry lies where a biased first line
// does, -1 where it lies elsewhere, 0 without any.
[[nodiscard]] int line_bias_vote(std::string_view record, std::endian order);

// Whether the bytes start with the four of an eh_frame_hdr: version 1, then three pointer
// encodings. An eh_frame starts with the length of a CIE, which is a multiple of 4.
[[nodiscard]] bool is_eh_frame_hdr(std::string_view bytes);

}  // namespace profd
