// The headers of an ELF file, copied into memory. For the readers of ELF files.
//
// Another user owns the bytes and may change them at any time, so each number is read once and
// checked where it is used, and no allocation is larger than the file format allows (4 MB of
// section headers). libelf, which profd does not use for this, sizes its tables by the numbers in
// the file. `fd` is borrowed and read with pread() only. The content of sections is not
// decompressed.

#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "formats/base/result.h"

namespace profd::elf {

// The bytes that were read: fewer at the end of the file, and where a read fails.
[[nodiscard]] std::size_t read_up_to(int fd, std::uint64_t offset, void* to, std::size_t bytes);

// False: the read failed or is short.
[[nodiscard]] bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes);

// The caller must limit `count`.
template <class T>
[[nodiscard]] std::optional<std::vector<T>> read_table(int fd, std::uint64_t offset,
                                                       std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> table(count);
  if (!read_at(fd, offset, table.data(), count * sizeof(T))) return std::nullopt;
  return table;
}

struct Headers {
  Elf64_Ehdr file{};
  std::vector<Elf64_Phdr> segments;
  // Empty for a file without section headers and for one with malformed ones. The extended
  // numbering for more than 65,279 sections is not read: only object files use it.
  std::vector<Elf64_Shdr> sections;
};

// kMalformed, kUnsupported or kTooLarge unless the file is a 64-bit little-endian ELF file of at
// most 4 GiB.
[[nodiscard]] Result<Headers> read_headers(int fd);

}  // namespace profd::elf
