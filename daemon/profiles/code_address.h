// Which byte of code a user frame stands for. Innermost frames and those that a signal or a fault
// interrupted stand for the byte at their address, all others for the call before it.

#pragma once

#include <cstdint>
#include <span>

#include "collectors/bpf/sample.h"
#include "formats/profile/profile.h"

namespace profd {

// Of the frame at `index` of a stack's UserFrame words, leaf first.
[[nodiscard]] PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index);

[[nodiscard]] std::uint64_t code_address(const UserFrame& frame, PcKind kind);

}  // namespace profd
