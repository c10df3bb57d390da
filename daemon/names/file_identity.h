// Which files have the same content as far as names go. Files with one identity share their names
// and their image.

#pragma once

#include <string>

#include "collectors/files/mapped_file.h"
#include "formats/elf/elf_file.h"

namespace profd {

// The file's build id (or the kernel's key of the file), a hash of its segments and size, and its
// owner if that is not root, since anyone can copy the build id of another file. A program and its
// stripped copy have one build id, but not one size. Safe as a file name.
[[nodiscard]] std::string file_identity(const MappedFile& file, const ElfSummary& elf);

// Whether the file was not written since the kernel side reported it.
[[nodiscard]] bool still_has_its_bytes(const MappedFile& file);

}  // namespace profd
