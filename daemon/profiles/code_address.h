// The byte of code that a user frame stands for: for the innermost frame and for frames that a
// signal or a fault interrupted the byte at their address, for all others the call before it.

#pragma once

#include <cstdint>
#include <span>

#include "collectors/bpf/sample.h"
#include "formats/profile/profile.h"

namespace profd {

// `words` are the UserFrame words of a stack, leaf first.
[[nodiscard]] PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index);

[[nodiscard]] std::uint64_t code_address(const UserFrame& frame, PcKind kind);

}  // namespace profd
