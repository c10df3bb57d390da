// What the model calls code of the kernel. The profile with names of a session and its gperftools
// profiles have other names for it: one has symbols as they are in kallsyms and a mapping
// "[kernel.kallsyms]", the others have images, whose symbols are read as those of programs. Views
// compare names, so all readers give their names to these functions.

#pragma once

#include <string>
#include <string_view>

namespace profd {

inline constexpr std::string_view kKernelObject = "[kernel.kallsyms]";

// "[kernel.kallsyms]" for the whole kernel: its mapping in a profile of profd or perf, or its image
// in a directory of profd. Any other text unchanged.
[[nodiscard]] std::string_view kernel_object_name(std::string_view object);

// The name of a function of the kernel in the form of shown_name() (formats/symbols/demangle.h),
// without suffixes such as ".isra.0". "[kernel]" for no name, and for one in brackets, which stands
// for code without a name.
[[nodiscard]] std::string kernel_function_name(std::string_view name);

}  // namespace profd
