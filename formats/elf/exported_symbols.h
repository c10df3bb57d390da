// The symbols of an ELF file by name, and what the dynamic loader writes into its GOT.
//
// The dynamic ones are found by PT_DYNAMIC, so that a file without section headers has them too
// (System V ABI, "Dynamic Linking"; DT_GNU_HASH is that of GNU's linker). Only the symbols that the
// file defines count. Another user owns the file: the steps along a hash chain, the symbols and the
// relocations are limited, and what is malformed is not found.

#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/elf/code_file.h"

namespace profd {

class ExportedSymbols {
 public:
  static constexpr std::size_t kMaxChainSteps = 64;
  static constexpr std::size_t kMaxNeeded = 256;
  static constexpr std::uint64_t kMaxRelocations = std::uint64_t{1} << 20;

  // Borrows `file`. One read. A file without PT_DYNAMIC, or with a malformed one, exports nothing.
  explicit ExportedSymbols(const CodeFile& file);

  // By the hash table of the file. A name that the file does not have costs two reads mostly, by
  // the Bloom filter of DT_GNU_HASH.
  [[nodiscard]] std::optional<Elf64_Sym> find(std::string_view name) const;

  // The address (as in the file) that this word will hold once the file is relocated. None: it is
  // no address, or that of another file. Scans the relocations.
  [[nodiscard]] std::optional<std::uint64_t> target_of_got(std::uint64_t vaddr) const;

  // Whether the loader writes the number of the file's TLS module there: the first of the two words
  // that __tls_get_addr() gets. Scans the relocations.
  [[nodiscard]] bool is_tls_module(std::uint64_t vaddr) const;

  // Whether it needs a library whose name has this prefix; of the first kMaxNeeded ones.
  [[nodiscard]] bool needs(std::string_view library_prefix) const;
  [[nodiscard]] bool needs_any() const { return !needed_.empty(); }

 private:
  void add(const Elf64_Dyn& entry);
  template <class T>
  [[nodiscard]] bool read(std::uint64_t vaddr, T& value) const {
    return file_->read_loaded(vaddr, &value, sizeof value) == sizeof value;
  }
  [[nodiscard]] bool has_text(std::uint64_t string, std::string_view text, bool is_whole) const;
  [[nodiscard]] std::optional<Elf64_Sym> symbol_at(std::uint64_t index) const;
  [[nodiscard]] std::optional<Elf64_Sym> symbol_named(std::uint64_t index,
                                                      std::string_view name) const;
  [[nodiscard]] std::optional<Elf64_Sym> find_by_gnu_hash(std::string_view name) const;
  [[nodiscard]] std::optional<Elf64_Sym> find_by_hash(std::string_view name) const;
  [[nodiscard]] std::optional<Elf64_Rela> relocation_of(std::uint64_t vaddr) const;

  const CodeFile* file_;
  // Addresses as in the file; 0: there is none.
  std::uint64_t symbols_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t strings_bytes_ = 0;
  std::uint64_t gnu_hash_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t relocations_ = 0;
  std::uint64_t relocations_bytes_ = 0;
  std::vector<std::uint64_t> needed_;  // offsets in the strings
};

// The defined symbols of .symtab with these names, in their order; of equal names the first. One
// pass over the table, of 1,000,000 symbols at most; none where the names take over 32 MiB.
[[nodiscard]] std::vector<std::optional<Elf64_Sym>> find_in_symtab(
    const CodeFile& file, std::span<const std::string_view> names);

}  // namespace profd
