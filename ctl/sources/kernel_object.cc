#include "ctl/sources/kernel_object.h"

namespace profd {

// "$build/objects/kernel-6.1.0-13-amd64.so", or "kernel.so" where the release is not known
// (daemon/profiles/kernel_image.cc, named_directory.cc). A program can be called kernel-tool, but
// releases begin with a digit.
std::string_view kernel_object_of(std::string_view path) {
  constexpr std::string_view kStart = "$build/objects/kernel";
  if (!path.starts_with(kStart) || !path.ends_with(".so")) return path;
  const std::string_view rest = path.substr(kStart.size());
  const bool has_release = rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9';
  return has_release || rest == ".so" ? kKernelObject : path;
}

}  // namespace profd
