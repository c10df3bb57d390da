// How code of the kernel is called in a directory of gperftools profiles: as in the profile with
// names of the same recording, so that views of both compare. There the kernel is a mapping, in the
// directory it is an image that profd wrote.

#pragma once

#include <string_view>

namespace profd {

inline constexpr std::string_view kKernelObject = "[kernel.kallsyms]";
// All of it, as one function, for who may not see more.
inline constexpr std::string_view kHiddenKernelObject = "[kernel]";

// Whether the path is that of an image in objects/, which profd writes into a result: below $build,
// or below the directory that other readers have put in its place.
[[nodiscard]] bool is_kernel_image(std::string_view path);
[[nodiscard]] bool is_jit_image(std::string_view path);

// "[python]", the mapping of interpreted code in a profile with names, or an image of such code
// alone.
[[nodiscard]] bool is_interpreter_object(std::string_view object);

// The mapping that an image of the kernel stands for. Any other path unchanged.
[[nodiscard]] std::string_view kernel_object_of(std::string_view path);

}  // namespace profd
