// The kernel frames in the profiles of a session, and the one image that names them.
//
// The image holds the functions that were hit, at folded addresses (formats/profile/profile.h). If
// the caller may not see kernel addresses, or the kernel hides its symbols (kernel.kptr_restrict),
// each run of kernel frames becomes one frame in a function `[kernel]` at a fixed address. Used on
// the worker.

#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectors/bpf/bpf_function.h"
#include "formats/elf/image.h"
#include "formats/proc/kallsyms.h"
#include "formats/profile/profile.h"

namespace profd {

class KernelImage {
 public:
  static KernelImage hidden();

  // `addresses` are those of the code bytes that were hit: one less than a return address. The same
  // as hidden() if no symbol is known. `loaded` as for find_kernel_function().
  static KernelImage named(const KernelSymbols& symbols, std::span<const BpfFunction> loaded,
                           const std::string& release, const std::set<std::uint64_t>& addresses);

  // Appends the frames of a profile for the kernel part of a stack. Both are leaf first. `leaf` is
  // what the leaf is, where that is in the kernel: of a block, it is a return address too.
  void append_frames(std::span<const std::uint64_t> kernel_frames, std::vector<Frame>& frames,
                     PcKind leaf = PcKind::kExact) const;

  // The mapping line of profiles that have kernel frames.
  [[nodiscard]] ProfileMapping mapping() const;

  [[nodiscard]] const std::string& line_path() const { return line_path_; }
  [[nodiscard]] std::string encode() const;

 private:
  KernelImage(bool hidden, std::string line_path, AbsoluteImage image);

  bool hidden_;
  std::string line_path_;
  AbsoluteImage image_;
};

}  // namespace profd
