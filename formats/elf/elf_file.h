// What an image needs of an ELF file: segments, build id, entry point, and the functions at some
// addresses.
//
// Files are other users' bytes: every count and size is checked and capped, nothing is mapped, a
// damaged file is an error and a damaged symbol table costs its symbols only. 64-bit little-endian
// files; others are refused by name.

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
  std::string name;           // mangled, as it stands

  friend bool operator==(const ElfSymbol&, const ElfSymbol&) = default;
};

struct ElfSummary {
  std::uint16_t type = 0;     // ET_EXEC or ET_DYN
  std::uint16_t machine = 0;  // EM_*
  std::uint64_t entry = 0;
  std::vector<ElfSegment> segments;  // PT_LOAD, in file order
  std::string build_id;              // raw bytes; empty: none
};

// `fd` is borrowed, and read by pread only.
[[nodiscard]] Result<ElfSummary> read_elf_summary(int fd);

// What may yet be spent on the symbols of files that root doesn't own: anyone can make a large
// table of nothing.
struct SymbolBudget {
  std::uint64_t table_bytes = std::uint64_t{256} << 20;
  std::chrono::steady_clock::duration time = std::chrono::seconds(2);
};

// The functions (.symtab, else .dynsym) that cover the given virtual addresses, sorted by address,
// each once. An address in no symbol is left out. A symbol without size covers up to the next one.
// Names are cut at 1,024 bytes; functions whose names would make more than 1 MiB are left out.
// kTooLarge for a table of more bytes than the file has on the disk, and where `budget` is spent.
[[nodiscard]] Result<std::vector<ElfSymbol>> find_elf_symbols(
    int fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget);

// The same, whatever it costs.
[[nodiscard]] Result<std::vector<ElfSymbol>> find_elf_symbols(
    int fd, std::span<const std::uint64_t> addresses);

// All functions of a file with few of them, such as an image (elf_image.h): sorted by address, each
// once, of at most 1 MiB of names. kTooLarge for a file of more than 200,000 symbols.
[[nodiscard]] Result<std::vector<ElfSymbol>> list_elf_functions(int fd);

// The virtual address that file offset `offset` is loaded at; error when no segment has it.
[[nodiscard]] Result<std::uint64_t> vaddr_of_offset(const ElfSummary& elf, std::uint64_t offset);

}  // namespace profd
