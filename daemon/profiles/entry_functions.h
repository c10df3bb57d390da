// Which frames lie in the function that a program starts in: the one at its ELF entry point. A
// stack whose outermost frame does is complete. Answers are kept by file, since a build starts the
// same compiler a thousand times. ELF files are read by the parser alone. Used on the worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "collectors/files/mapped_files.h"
#include "collectors/parser/parser.h"
#include "formats/elf/elf_file.h"

namespace profd {

class EntryFunctions {
 public:
  // `parser` must outlive *this.
  explicit EntryFunctions(Parser& parser) : parser_(parser) {}

  // Those of `file_offsets` whose code belongs to the function at the file's entry point. None for
  // a file without a symbol there, or whose symbols `budget` doesn't allow.
  [[nodiscard]] std::set<std::uint64_t> select(const MappedFile& file,
                                               const std::set<std::uint64_t>& file_offsets,
                                               SymbolBudget& budget);

  // Forgets all, where it is about more than so many files and addresses.
  void forget_beyond(std::size_t count);

 private:
  struct KnownFile {
    std::optional<ElfSummary> elf;           // none: nothing to be found in it
    std::map<std::uint64_t, bool> in_entry;  // by virtual address
  };

  KnownFile& find_or_read(const MappedFile& file);
  void look_up(const MappedFile& file, KnownFile& known, const std::set<std::uint64_t>& addresses,
               SymbolBudget& budget);

  Parser& parser_;
  std::map<FileKey, KnownFile> files_;
};

}  // namespace profd
