#include "daemon/history/kernel_object.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "collectors/host/host_checks.h"
#include "daemon/storage/safe_name.h"
#include "formats/base/whole_file.h"
#include "formats/profile/profile.h"

namespace profd {
namespace {

// The memory map of x86-64 (Documentation/arch/x86/x86_64/mm.rst): the kernel's text, then modules
// and BPF programs.
constexpr std::uint64_t kTextStart = 0xffffffff80000000;
constexpr std::uint64_t kModulesStart = 0xffffffffc0000000;
constexpr std::uint64_t kTextEnd = 0xffffffffff000000;

// Reading /proc/kallsyms and sorting it takes 60 ms.
constexpr std::chrono::minutes kMaxSymbolsAge{10};

constexpr std::size_t kReleaseBytes = 80;
constexpr std::size_t kBootIdBytes = 8;
constexpr std::size_t kMaxNameless = 65536;

std::string boot_id() {
  const Result<std::string> id = read_whole_file("/proc/sys/kernel/random/boot_id");
  return id ? safe_file_name(*id, kBootIdBytes) : "unknown";
}

bool is_constant(std::uint64_t address) { return address < kModulesStart; }

}  // namespace

KernelImage KernelObject::image_for(const std::set<std::uint64_t>& addresses) {
  load_image_of_boot();
  if (!std::ranges::all_of(addresses, [this](std::uint64_t at) { return is_known(at); })) {
    look_up(addresses);
  }
  hidden_ = functions_.empty();
  if (hidden_) return KernelImage::hidden(store_.path_of(name()));
  return KernelImage::of(image(), store_.path_of(name()));
}

Result<std::uint64_t> KernelObject::write() {
  if (!changed_ && bytes_ != 0) return bytes_;
  const std::string bytes =
      hidden_ ? KernelImage::hidden().encode() : encode_absolute_image(image());
  if (Result<void> put = store_.put(name(), bytes); !put) return put.error();
  changed_ = false;
  bytes_ = bytes.size();
  return bytes_;
}

std::string KernelObject::name() const {
  if (hidden_) return "kernel-hidden.so";
  std::string name = "kernel-" + safe_file_name(kernel_release(), kReleaseBytes) + "-" + boot_id();
  if (number_ != 1) name += "-" + std::to_string(number_);
  return name + ".so";
}

// Loads the newest image of this boot.
void KernelObject::load_image_of_boot() {
  if (std::exchange(loaded_, true)) return;
  for (number_ = 1;; ++number_) {
    const Result<std::vector<ElfSymbol>> there = store_.functions_of(name());
    if (!there || there->empty()) break;
    functions_.clear();
    for (const ElfSymbol& function : *there) {
      const std::uint64_t start = unfold_kernel_address(function.address);
      if (is_gap_name(function.name) || start >= kTextEnd) continue;
      functions_.emplace(start, Function{start + function.bytes, function.name});
    }
  }
  number_ = std::max(number_ - 1, 1);
}

bool KernelObject::is_known(std::uint64_t address) const {
  if (!is_constant(address)) return false;
  if (nameless_.contains(address)) return true;
  const auto after = functions_.upper_bound(address);
  return after != functions_.begin() && address < std::prev(after)->second.end;
}

void KernelObject::look_up(const std::set<std::uint64_t>& addresses) {
  if (!refresh_symbols()) return;
  for (const std::uint64_t address : addresses) {
    if (is_known(address) || address < kTextStart || address >= kTextEnd) continue;
    const auto symbol = symbols_->find(address);
    if (symbol) {
      add(symbol->start, {.end = symbol->end, .name = std::string(symbol->name)});
    } else if (nameless_.size() < kMaxNameless) {
      nameless_.insert(address);
    }
  }
}

// A function that overlaps another known function has replaced it in memory, so a new image begins.
void KernelObject::add(std::uint64_t start, Function function) {
  const auto after = functions_.lower_bound(function.end);
  const auto before = after == functions_.begin() ? functions_.end() : std::prev(after);
  const bool overlaps = before != functions_.end() && before->second.end > start;
  if (overlaps && before->first == start && before->second == function) return;
  if (overlaps) {
    ++number_;
    std::erase_if(functions_, [](const auto& entry) { return !is_constant(entry.first); });
  }
  functions_.insert_or_assign(start, std::move(function));
  changed_ = true;
}

// False: the kernel hides its symbols.
bool KernelObject::refresh_symbols() {
  if (symbols_ && Clock::now() - read_at_ < kMaxSymbolsAge) return true;
  read_at_ = Clock::now();
  symbols_.reset();
  Result<std::string> text = read_whole_file("/proc/kallsyms");
  if (!text) return false;
  Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(*text));
  if (symbols && !symbols->empty()) symbols_ = std::move(*symbols);
  return symbols_.has_value();
}

AbsoluteImage KernelObject::image() const {
  AbsoluteImage image;
  image.text_start = fold_kernel_address(kTextStart);
  image.text_end = fold_kernel_address(kTextEnd);
  for (const auto& [start, function] : functions_) {
    image.functions.push_back({.address = fold_kernel_address(start),
                               .bytes = function.end - start,
                               .name = function.name});
  }
  return image;
}

}  // namespace profd
