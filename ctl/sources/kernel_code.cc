#include "ctl/sources/kernel_code.h"

#include "ctl/views/group_key.h"
#include "formats/symbols/demangle.h"

namespace profd {
namespace {

// "$build/objects/kernel-6.1.0-13-amd64.so", or "kernel.so" where the release is not known. A
// program can be called kernel-tool, but releases begin with a digit.
bool is_kernel_image(std::string_view object) {
  constexpr std::string_view kStart = "$build/objects/kernel";
  if (!object.starts_with(kStart) || !object.ends_with(".so")) return false;
  const std::string_view rest = object.substr(kStart.size());
  return rest == ".so" || (rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9');
}

}  // namespace

std::string_view kernel_object_name(std::string_view object) {
  const bool is_kernel = base_name(object).starts_with("[kernel") || is_kernel_image(object);
  return is_kernel ? kKernelObject : object;
}

std::string kernel_function_name(std::string_view name) {
  const bool is_unnamed = name.empty() || name.starts_with('[');
  return is_unnamed ? "[kernel]" : shown_name(name);
}

}  // namespace profd
