// The files of this folder, in the program. cmake/EmbedPage.cmake writes their bytes into it.

#pragma once

#include <span>
#include <string_view>

namespace profd {

struct PageFile {
  std::string_view name;  // "tree.js"
  std::string_view bytes;
};

// In the order of the build: each module after those that it imports.
[[nodiscard]] std::span<const PageFile> page_files();

}  // namespace profd
