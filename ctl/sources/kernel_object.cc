#include "ctl/sources/kernel_object.h"

namespace profd {

// "$build/objects/kernel-6.1.0-13-amd64.so", or "kernel.so" for the hidden kernel
// (daemon/profiles/kernel_image.cc). A program can be called kernel-tool, but releases begin with a
// digit.
std::string_view kernel_object_of(std::string_view path) {
  constexpr std::string_view kStart = "$build/objects/kernel";
  if (!path.starts_with(kStart) || !path.ends_with(".so")) return path;
  const std::string_view rest = path.substr(kStart.size());
  if (rest == ".so") return kHiddenKernelObject;
  const bool has_release = rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9';
  return has_release ? kKernelObject : path;
}

}  // namespace profd
