#include "daemon/profiles/kernel_image.h"

#include <map>
#include <optional>
#include <utility>

#include "daemon/names/kernel_names.h"
#include "daemon/storage/safe_name.h"

namespace profd {
namespace {

// The start of the kernel's text without address randomization, which is the same on every host.
constexpr std::uint64_t kHiddenAddress = 0xffffffff81000000;
constexpr std::uint64_t kHiddenBytes = 4096;
constexpr std::size_t kReleaseBytes = 100;

}  // namespace

KernelImage KernelImage::hidden() {
  AbsoluteImage image;
  image.functions.push_back(
      {.address = fold_kernel_address(kHiddenAddress), .bytes = kHiddenBytes, .name = "[kernel]"});
  return {true, "$build/objects/kernel.so", std::move(image)};
}

// The image is not called vmlinux, since Go's pprof would look for _stext in it.
KernelImage KernelImage::named(const KernelSymbols& symbols, std::span<const BpfFunction> loaded,
                               const std::string& release,
                               const std::set<std::uint64_t>& addresses) {
  if (symbols.empty()) return hidden();
  std::map<std::uint64_t, ElfSymbol> functions;
  for (const std::uint64_t address : addresses) {
    const std::optional<KernelSymbols::Symbol> symbol =
        find_kernel_function(symbols, loaded, address);
    if (!symbol) continue;
    functions.try_emplace(symbol->start, ElfSymbol{.address = fold_kernel_address(symbol->start),
                                                   .bytes = symbol->end - symbol->start,
                                                   .name = std::string(symbol->name)});
  }
  AbsoluteImage image;
  for (auto& [start, function] : functions) image.functions.push_back(std::move(function));
  if (image.functions.empty()) return hidden();
  return {false, "$build/objects/kernel-" + safe_file_name(release, kReleaseBytes) + ".so",
          std::move(image)};
}

void KernelImage::append_frames(std::span<const std::uint64_t> kernel_frames,
                                std::vector<Frame>& frames, PcKind leaf) const {
  if (kernel_frames.empty()) return;
  if (hidden_) {
    frames.push_back({.pc = kHiddenAddress, .kind = PcKind::kExact});
    return;
  }
  // Readers take the address of a leaf as it is.
  const std::uint64_t first = kernel_frames.front() - (leaf == PcKind::kExact ? 0U : 1U);
  frames.push_back({.pc = first, .kind = PcKind::kExact});
  for (const std::uint64_t pc : kernel_frames.subspan(1)) {
    frames.push_back({.pc = pc, .kind = PcKind::kReturnAddress});
  }
}

ProfileMapping KernelImage::mapping() const {
  const ImagePlacement placement = placement_of(image_);
  return {.start = placement.start,
          .end = placement.end,
          .file_offset = placement.file_offset,
          .path = line_path_};
}

std::string KernelImage::encode() const { return encode_absolute_image(image_); }

KernelImage::KernelImage(bool hidden, std::string line_path, AbsoluteImage image)
    : hidden_(hidden), line_path_(std::move(line_path)), image_(std::move(image)) {}

}  // namespace profd
