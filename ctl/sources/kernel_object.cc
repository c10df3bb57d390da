#include "ctl/sources/kernel_object.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace profd {
namespace {

bool is_decimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "kernel-6.1.0-13-amd64" of "$build/objects/kernel-6.1.0-13-amd64.so". Empty: it is no image.
std::string_view image_name_of(std::string_view path) {
  constexpr std::string_view kDirectory = "/objects/";
  constexpr std::string_view kEnd = ".so";
  const std::size_t name = path.rfind('/') + 1;  // 0: there is no slash
  if (!path.substr(0, name).ends_with(kDirectory) || !path.ends_with(kEnd)) return {};
  return path.substr(name, path.size() - name - kEnd.size());
}

// "jit-node-4711" (daemon/profiles/jit_images.cc), or "jit" in an export; with "-2" for another
// one. The image of a program that is called jit-tool ends in its build id.
bool is_image_of_code(std::string_view code, std::string_view image) {
  if (!image.starts_with(code)) return false;
  image.remove_prefix(code.size());
  return image.empty() || (image[0] == '-' && is_decimal(image.substr(image.rfind('-') + 1)));
}

}  // namespace

// "kernel-6.1.0-13-amd64", or "kernel" where the release is not known
// (daemon/profiles/kernel_image.cc, named_directory.cc). A program can be called kernel-tool, but
// releases begin with a digit.
bool is_kernel_image(std::string_view path) {
  constexpr std::string_view kName = "kernel";
  std::string_view name = image_name_of(path);
  if (!name.starts_with(kName)) return false;
  name.remove_prefix(kName.size());
  return name.empty() || (name[0] == '-' && is_decimal(name.substr(1, 1)));
}

bool is_jit_image(std::string_view path) { return is_image_of_code("jit", image_name_of(path)); }

// A program that is called python3.11 and can't be read is "[python3.11]".
bool is_interpreter_object(std::string_view object) {
  constexpr std::array<std::string_view, 3> kNames{"python", "php", "interpreted"};
  if (object.size() > 2 && object.starts_with('[') && object.ends_with(']')) {
    return std::ranges::find(kNames, object.substr(1, object.size() - 2)) != kNames.end();
  }
  const std::string_view image = image_name_of(object);
  return std::ranges::any_of(
      kNames, [image](std::string_view code) { return is_image_of_code(code, image); });
}

std::string_view kernel_object_of(std::string_view path) {
  return path.starts_with("$build/") && is_kernel_image(path) ? kKernelObject : path;
}

}  // namespace profd
