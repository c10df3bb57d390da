// The kernel's frames in the profiles of a session or window, and the one image that names them.
//
// The image holds the functions that were hit, at folded addresses (formats/profile/profile.h).
// Where the kernel's addresses are not the caller's to see, or the kernel shows no symbols
// (kernel.kptr_restrict), each run of kernel frames becomes one frame in a function `[kernel]`, at
// an address that says nothing. Used on the worker.

#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "formats/elf/image.h"
#include "formats/proc/kallsyms.h"
#include "formats/profile/profile.h"

namespace profd {

class KernelImage {
 public:
  static KernelImage hidden();

  // `addresses`: of code bytes that were hit, so one less than a return address.
  static KernelImage named(const KernelSymbols& symbols, const std::string& release,
                           const std::set<std::uint64_t>& addresses);

  // The same, as profiles under any path name it.
  [[nodiscard]] KernelImage at(std::string line_path) &&;

  // One whose functions are known already, at folded addresses.
  static KernelImage of(AbsoluteImage image, std::string line_path);

  // Frames as a profile wants them, for kernel frames as the kernel gives them; both leaf first.
  void append_frames(std::span<const std::uint64_t> kernel_frames,
                     std::vector<Frame>& frames) const;

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
