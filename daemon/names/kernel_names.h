// The functions of the kernel, its modules and BPF programs by address, from /proc/kallsyms.
//
// Modules come and go: the symbols are read again for an unknown address, at most once a minute.
// BPF programs come and go too, and kallsyms does not say where one ends: their names are those of
// the list that was made when the samples ended. On a worker.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "collectors/bpf/bpf_function.h"
#include "formats/proc/kallsyms.h"

namespace profd {

// The function at an address of the kernel, valid as long as both arguments. None: no symbol is
// known there, or it is that of a BPF program that `loaded`, sorted by address, does not have.
// Where `loaded` is empty, kallsyms names BPF programs. The byte directly before a BPF program
// belongs to it, as the padding before a function does (formats/proc/kallsyms.h).
[[nodiscard]] std::optional<KernelSymbols::Symbol> find_kernel_function(
    const KernelSymbols& symbols, std::span<const BpfFunction> loaded, std::uint64_t address);

class KernelNames {
 public:
  // As above. Valid until the next call. None also where the kernel hides its symbols
  // (kernel.kptr_restrict).
  [[nodiscard]] std::optional<KernelSymbols::Symbol> find(std::uint64_t address,
                                                          std::span<const BpfFunction> loaded);

 private:
  using Clock = std::chrono::steady_clock;

  void read(Clock::time_point now);

  std::optional<KernelSymbols> symbols_;
  std::optional<Clock::time_point> read_at_;
};

}  // namespace profd
