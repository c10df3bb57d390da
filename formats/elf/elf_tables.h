// The headers of an ELF file, read by value: for elf_file.cc and elf_symbols.cc.
//
// Another user owns the bytes and may change them at any time, so each number is read once and
// checked as it is used, and no allocation is larger than the file format allows (4 MB of section
// headers). That is why this isn't libelf, which sizes its tables by what the file says. `fd` is
// borrowed and read by pread only. Sections' data is never inflated.

#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "formats/base/result.h"

namespace profd::elf {

// False on a short read or a refused one.
[[nodiscard]] bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes);

// `count` must be bounded by the caller.
template <class T>
[[nodiscard]] std::optional<std::vector<T>> read_table(int fd, std::uint64_t offset,
                                                       std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> table(count);
  if (!read_at(fd, offset, table.data(), count * sizeof(T))) return std::nullopt;
  return table;
}

// Of a 64-bit little-endian file of at most 4 GiB; others are an error that says what they are.
[[nodiscard]] Result<Elf64_Ehdr> read_header(int fd);

[[nodiscard]] Result<std::vector<Elf64_Phdr>> read_program_headers(int fd,
                                                                   const Elf64_Ehdr& header);

// None for a file without section headers, and for one whose are damaged. Only object files have
// the more than 65,279 that are counted otherwise.
[[nodiscard]] std::vector<Elf64_Shdr> read_section_headers(int fd, const Elf64_Ehdr& header);

}  // namespace profd::elf
