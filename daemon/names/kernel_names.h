// The functions of the kernel, its modules and BPF programs by address, from /proc/kallsyms.
//
// Modules and BPF programs come and go: the symbols are read again for an unknown address, at most
// once a minute. On a worker.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "formats/proc/kallsyms.h"

namespace profd {

class KernelNames {
 public:
  // None: no symbol is known there, or the kernel hides its symbols (kernel.kptr_restrict). Valid
  // until the next call.
  [[nodiscard]] std::optional<KernelSymbols::Symbol> find(std::uint64_t address);

 private:
  using Clock = std::chrono::steady_clock;

  void read(Clock::time_point now);

  std::optional<KernelSymbols> symbols_;
  std::optional<Clock::time_point> read_at_;
};

}  // namespace profd
