// The functions of the kernel, its modules and BPF programs by address, from /proc/kallsyms.
//
// Modules come and go: the symbols are read again for an unknown address, at most once a minute.
// They take some MiB, so the workers share them.
//
// BPF programs come and go too, and kallsyms does not say where one ends: their names are those of
// the list that was made when the samples ended.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "collectors/bpf/bpf_function.h"
#include "formats/proc/kallsyms.h"

namespace profd {

// The function at an address of the kernel, valid as long as both arguments. None: no symbol is
// known there, or it is that of a BPF program that `loaded`, sorted by address, does not have.
// Where `loaded` is empty, kallsyms names BPF programs. The byte directly before a BPF program
// belongs to it, as the padding before a function does (formats/proc/kallsyms.h).
[[nodiscard]] std::optional<KernelSymbols::Symbol> find_kernel_function(
    const KernelSymbols& symbols, std::span<const BpfFunction> loaded, std::uint64_t address);

// The symbols of the running kernel as they were last read. Any thread.
class SharedKernelSymbols {
 public:
  using Symbols = std::shared_ptr<const KernelSymbols>;

  // As they were last read; reads them if nobody has. Null where they can't be read.
  [[nodiscard]] Symbols current();

  // Reads them if they are older than a minute, which takes 60 ms. No thread waits while another
  // one reads.
  [[nodiscard]] Symbols latest();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  Symbols symbols_;                           // under mutex_
  std::optional<Clock::time_point> read_at_;  // under mutex_
};

// One worker's.
class KernelNames {
 public:
  // `shared` is not null.
  explicit KernelNames(std::shared_ptr<SharedKernelSymbols> shared) : shared_(std::move(shared)) {}

  // As above. Valid until the next call of either. None also where the kernel hides its symbols
  // (kernel.kptr_restrict).
  [[nodiscard]] std::optional<KernelSymbols::Symbol> find(std::uint64_t address,
                                                          std::span<const BpfFunction> loaded);

  // Releases the symbols, so that old ones are freed when no worker names with them.
  void release() { symbols_.reset(); }

 private:
  std::shared_ptr<SharedKernelSymbols> shared_;
  SharedKernelSymbols::Symbols symbols_;
};

}  // namespace profd
