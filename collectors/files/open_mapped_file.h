// Opens the file of a mapping: exactly the mapped file, which must be a regular file and have the
// content that ran. Never opens a file on FUSE, whose server may never answer, nor through an
// overlay of users, which may have FUSE as a layer: there the file of the layer is opened
// (open_by_number.h).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/bpf/sample.h"
#include "collectors/files/mapped_file.h"

namespace profd {

// What is needed to find the file of a mapping. Owns its data.
struct MappingPlace {
  FileKey file;
  ProcessKey process;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool on_fuse = false;
  std::string path;  // from the dentry names when it was sampled; empty: unknown
};

[[nodiscard]] MappingPlace place_of(const MappingView& mapping);

// The effective uid of a process; root for one that has exited or is not dumpable. Does not take
// the lock of the process's memory.
[[nodiscard]] std::uint32_t user_of_process(std::uint32_t tgid);

// A MappedFile without a descriptor; `why` becomes its error.
[[nodiscard]] MappedFile unopened(const MappingPlace& place, std::string why);

// Opens it through /proc/PID/map_files, also when it is deleted, on an overlay or in another mount
// namespace. May block: it takes the lock of the process's memory, which the process can hold for
// long.
[[nodiscard]] MappedFile open_by_mapping(const MappingPlace& place);

// Opens it by its names, where the process has exited or open_by_mapping() failed with `error`.
[[nodiscard]] MappedFile open_by_names(const MappingPlace& place, const std::string& error);

// Opens it by its mapping, and where that fails by its names. May block, as open_by_mapping().
[[nodiscard]] MappedFile open_mapped_file(const MappingPlace& place);

// "bin\0usr\0" -> "/usr/bin". Empty for no names.
[[nodiscard]] std::string path_from_names(std::string_view names);

// Whether path_from_names() is this path. Allocates nothing.
[[nodiscard]] bool are_names_of(std::string_view names, std::string_view path);

}  // namespace profd
