#include "daemon/names/kernel_names.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "formats/base/whole_file.h"

namespace profd {
namespace {

// Reading and sorting the symbols takes 60 ms.
constexpr std::chrono::minutes kReadInterval{1};

constexpr std::string_view kBpfModule = "[bpf]";

// A trampoline to a BPF program, which the list of functions does not have, takes at most a page.
constexpr std::uint64_t kMaxTrampolineBytes = 4096;

const BpfFunction* find_bpf_function(std::span<const BpfFunction> loaded, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(
      loaded, address, {}, [](const BpfFunction& function) { return function.code.start; });
  if (after == loaded.begin()) return nullptr;
  const BpfFunction& function = *std::prev(after);
  return address < function.code.end ? &function : nullptr;
}

// With the byte directly before the function, unless that is code of another one.
std::optional<KernelSymbols::Symbol> find_bpf_symbol(std::span<const BpfFunction> loaded,
                                                     std::uint64_t address) {
  const BpfFunction* function = find_bpf_function(loaded, address);
  if (function == nullptr) function = find_bpf_function(loaded, address + 1);
  if (function == nullptr) return std::nullopt;
  const std::uint64_t start = function->code.start;
  const bool is_after_another = find_bpf_function(loaded, start - 1) != nullptr;
  return KernelSymbols::Symbol{.start = is_after_another ? start : start - 1,
                               .end = function->code.end,
                               .name = function->name,
                               .module = kBpfModule};
}

SharedKernelSymbols::Symbols read_symbols() {
  Result<std::string> text = read_whole_file("/proc/kallsyms");
  if (!text) return nullptr;
  Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(*text));
  return symbols ? std::make_shared<const KernelSymbols>(std::move(*symbols)) : nullptr;
}

}  // namespace

std::optional<KernelSymbols::Symbol> find_kernel_function(const KernelSymbols& symbols,
                                                          std::span<const BpfFunction> loaded,
                                                          std::uint64_t address) {
  if (const auto function = find_bpf_symbol(loaded, address)) return function;
  auto symbol = symbols.find(address);
  if (!symbol || symbol->module != kBpfModule || loaded.empty()) return symbol;
  if (symbol->name.starts_with("bpf_prog_")) return std::nullopt;
  symbol->end = std::min(symbol->end, symbol->start + kMaxTrampolineBytes);
  if (address >= symbol->end) return std::nullopt;
  return symbol;
}

SharedKernelSymbols::Symbols SharedKernelSymbols::current() {
  {
    const std::lock_guard lock(mutex_);
    if (read_at_) return symbols_;
  }
  return latest();
}

SharedKernelSymbols::Symbols SharedKernelSymbols::latest() {
  {
    const std::lock_guard lock(mutex_);
    if (read_at_ && Clock::now() - *read_at_ < kReadInterval) return symbols_;
  }
  const Symbols read = read_symbols();
  const std::lock_guard lock(mutex_);
  read_at_ = Clock::now();
  if (read) symbols_ = read;
  return symbols_;
}

std::optional<KernelSymbols::Symbol> KernelNames::find(std::uint64_t address,
                                                       std::span<const BpfFunction> loaded) {
  if (!symbols_) symbols_ = shared_->current();
  if (symbols_) {
    if (const auto found = find_kernel_function(*symbols_, loaded, address)) return found;
  }
  const SharedKernelSymbols::Symbols latest = shared_->latest();
  if (!latest || latest == symbols_) return std::nullopt;
  symbols_ = latest;
  return find_kernel_function(*symbols_, loaded, address);
}

}  // namespace profd
