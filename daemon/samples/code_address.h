// Which byte of code a user frame stands for: in an innermost frame, and in one that a signal or a
// fault interrupted, the byte at its address; in any other, the call before its address.

#pragma once

#include <cstdint>
#include <span>

#include "collectors/bpf/sample.h"
#include "formats/profile/profile.h"

namespace profd {

// `words` are the UserFrame words of a stack, leaf first; `index` is the frame's place in them.
[[nodiscard]] PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index);

[[nodiscard]] std::uint64_t code_address(const UserFrame& frame, PcKind kind);

}  // namespace profd
