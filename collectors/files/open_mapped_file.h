// Opens the file of a mapping: exactly the mapped one, a regular file, with the content that ran,
// and never one on FUSE, where another process may let us wait for ever.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/bpf/sample.h"
#include "collectors/files/mapped_file.h"

namespace profd {

// What it takes to find the file of a mapping. Owns all of it.
struct MappingPlace {
  FileKey file;
  std::uint32_t tgid = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool on_fuse = false;
  std::string path;  // by the kernel's names when it was sampled; empty: unknown
};

[[nodiscard]] MappingPlace place_of(const MappingView& mapping);

// Without a descriptor, and why.
[[nodiscard]] MappedFile unopened(const MappingPlace& place, std::string why);

// By /proc/PID/map_files, also when it is deleted, on an overlay or in another mount namespace.
// Waits for the lock of the process's memory, which the process itself can hold for long.
[[nodiscard]] MappedFile open_by_mapping(const MappingPlace& place);

// By its names, for when the process is gone or does not let us in; `error` says what was tried
// before. Waits for nobody.
[[nodiscard]] MappedFile open_by_names(const MappingPlace& place, const std::string& error);

// "bin\0usr\0" -> "/usr/bin". Empty for no names.
[[nodiscard]] std::string path_from_names(std::string_view names);

}  // namespace profd
