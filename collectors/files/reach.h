// Whether everybody could open a file by its path, as far as the directories on its way go. The
// mode of the file itself says the rest.

#pragma once

#include <string_view>

namespace profd {

// Whether others than their owners may search each directory from `root` to the file, which has no
// symbolic link on its way.
[[nodiscard]] bool may_be_reached_by_others(int root, std::string_view path, int file);

// The same for a file of this process's root, by the path that the kernel has for it.
[[nodiscard]] bool may_be_reached_by_others(int file);

}  // namespace profd
