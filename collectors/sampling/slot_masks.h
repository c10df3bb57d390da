// Masks of slots in the kernel's filter, which running programs read.

#pragma once

#include <atomic>
#include <cstdint>

#include "collectors/bpf/sample.h"

namespace profd {

[[nodiscard]] constexpr std::uint32_t bit(SessionSlot slot) { return std::uint32_t{1} << slot; }

inline void set_bit(std::uint32_t& mask, SessionSlot slot) {
  std::atomic_ref(mask).fetch_or(bit(slot), std::memory_order_release);
}

inline void clear_bit(std::uint32_t& mask, SessionSlot slot) {
  std::atomic_ref(mask).fetch_and(~bit(slot), std::memory_order_release);
}

}  // namespace profd
