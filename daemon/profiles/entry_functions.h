// Finds the frames that lie in the function at a program's ELF entry point. A stack whose outermost
// frame lies there is complete. The answers are cached by file, since a build starts the same
// compiler a thousand times. A file that the parser could not read in time, or whose symbols were
// over the budget, is asked for again after trim(), a limited number of times. Only the parser
// reads ELF files. Used on the worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "collectors/files/mapped_files.h"
#include "collectors/parser/parser.h"
#include "daemon/names/name_cache.h"
#include "formats/elf/elf_file.h"

namespace profd {

class EntryFunctions {
 public:
  // `parser` must outlive *this.
  explicit EntryFunctions(Parser& parser) : parser_(parser) {}

  // Returns the offsets whose code belongs to the function at the file's entry point: none if the
  // file has no symbol there, or if its symbols cost more than `budget`.
  [[nodiscard]] std::set<std::uint64_t> select(const MappedFile& file,
                                               const std::set<std::uint64_t>& file_offsets,
                                               SymbolBudget& budget);

  // Between two windows: drops users' files that were not used for NameCache::kUnused, and all
  // files if they hold more than `max_entries` files and addresses.
  void trim(std::size_t max_entries, NameCache::Clock::time_point now = NameCache::Clock::now());

 private:
  static constexpr unsigned kMaxFailures = 16;

  struct KnownFile {
    std::optional<ElfSummary> elf{};           // none: not read yet, or it can't be read
    std::map<std::uint64_t, bool> in_entry{};  // by virtual address
    bool has_failed = false;                   // since the last trim()
    unsigned failures = 0;                     // kMaxFailures: not asked for any more
    bool is_users = false;
    NameCache::Clock::time_point used_at{};

    void add_failure(const Error& error);
  };

  KnownFile* find_or_read(const MappedFile& file);
  [[nodiscard]] static bool may_ask(const MappedFile& file, const KnownFile& known);
  void look_up(const MappedFile& file, KnownFile& known, const std::set<std::uint64_t>& addresses,
               SymbolBudget& budget);

  Parser& parser_;
  std::map<FileKey, KnownFile> files_;
};

}  // namespace profd
