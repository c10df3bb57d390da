// The parts of an ELF file that an image of it needs: segments, build id, entry point, and the
// functions at some addresses.
//
// The files belong to other users: every count and size is checked and limited, and nothing is
// mapped. A malformed file is an error; a malformed symbol table has no symbols. Only 64-bit
// little-endian files are read; the error for any other names its kind.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct ElfSegment {
  std::uint64_t offset = 0;
  std::uint64_t vaddr = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t align = 0;
  std::uint32_t flags = 0;  // PF_*
};

struct ElfSymbol {
  std::uint64_t address = 0;  // as in the file: a virtual address
  std::uint64_t bytes = 0;    // 0: not given
  std::string name;           // mangled, as in the file

  friend bool operator==(const ElfSymbol&, const ElfSymbol&) = default;
};

struct ElfSummary {
  std::uint16_t type = 0;     // ET_EXEC or ET_DYN
  std::uint16_t machine = 0;  // EM_*
  std::uint64_t entry = 0;
  std::vector<ElfSegment> segments;  // PT_LOAD, in file order
  std::string build_id{};            // raw bytes; empty: none
  std::string debug_link{};          // the name in .gnu_debuglink (debug_link.h); empty: none
};

// `fd` is borrowed, and read with pread() only.
[[nodiscard]] Result<ElfSummary> read_elf_summary(int fd);

// The rest of the limits for the symbols of files that root does not own: any user can make a file
// with a large table.
struct SymbolBudget {
  std::uint64_t table_bytes = std::uint64_t{256} << 20;
  std::chrono::steady_clock::duration time = std::chrono::seconds(2);
  // The memory for names that the caller keeps, who spends it.
  std::uint64_t kept_bytes = std::uint64_t{64} << 20;
};

// The functions (of .symtab, else of .dynsym) that cover the given virtual addresses, sorted by
// address, each once. An address without a symbol is left out. A symbol without a size covers the
// addresses up to the next one. Names are cut at 1,024 bytes, and functions beyond 1 MiB of names
// are left out. kTooLarge: the table has more bytes than the file has on disk, or `budget` is
// spent.
[[nodiscard]] Result<std::vector<ElfSymbol>> find_elf_symbols(
    int fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget);

// All functions of a file with few of them, such as an image (formats/elf/image.h): sorted by
// address, each once, up to 1 MiB of names. kTooLarge for a file with more than 200,000 symbols.
[[nodiscard]] Result<std::vector<ElfSymbol>> list_elf_functions(int fd);

// The virtual address of file offset `offset`. kNotFound: no segment contains it.
[[nodiscard]] Result<std::uint64_t> vaddr_of_offset(const ElfSummary& elf, std::uint64_t offset);

}  // namespace profd
