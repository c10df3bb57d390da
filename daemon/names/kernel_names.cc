#include "daemon/names/kernel_names.h"

#include <string>
#include <utility>

#include "formats/base/whole_file.h"

namespace profd {
namespace {

// Reading and sorting the symbols takes 60 ms.
constexpr std::chrono::minutes kReadInterval{1};

}  // namespace

std::optional<KernelSymbols::Symbol> KernelNames::find(std::uint64_t address) {
  if (symbols_) {
    if (const auto found = symbols_->find(address)) return found;
  }
  const Clock::time_point now = Clock::now();
  if (read_at_ && now - *read_at_ < kReadInterval) return std::nullopt;
  read(now);
  return symbols_ ? symbols_->find(address) : std::nullopt;
}

void KernelNames::read(Clock::time_point now) {
  read_at_ = now;
  Result<std::string> text = read_whole_file("/proc/kallsyms");
  if (!text) return;
  Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(*text));
  if (symbols) symbols_.emplace(std::move(*symbols));
}

}  // namespace profd
