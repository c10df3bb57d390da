// Names the code addresses of files: from the cache, then from symbol tables, which only the parser
// reads. After that, inlined functions and lines come from DWARF, as far as there is time.
//
// Each file is looked up once for all its addresses. The symbols of one user's files do not use up
// the time for those of another's (SymbolBudgets), and neither do the lines of the addresses that
// one user's samples hit (LineBudget). A file that the parser could not read in time is read again
// when it is hit later (collectors/files/backoff.h). On a worker.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectors/files/backoff.h"
#include "collectors/files/mapped_file.h"
#include "collectors/host/uid_owners.h"
#include "collectors/parser/parser.h"
#include "daemon/names/debug_file_finder.h"
#include "daemon/names/line_budget.h"
#include "daemon/names/line_namer.h"
#include "daemon/names/name_cache.h"
#include "daemon/names/symbol_budgets.h"
#include "formats/base/pool_map.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"
#include "formats/symbols/code_names.h"

namespace profd {

// What the samples of one user hit in a file.
struct UserHits {
  std::uint64_t samples = 0;  // that hit the file, each once
  std::map<std::uint64_t, std::uint64_t> samples_by_offset{};
};

// A file, and the bytes of it that samples hit, each with the number of samples.
struct HitFile {
  std::shared_ptr<const MappedFile> file;
  std::map<std::uint64_t, std::uint64_t> samples_by_offset;  // of all users
  std::vector<HitProcess> processes{};                       // some of those that have mapped it
  // Of all processes whose samples hit it. A file that none of these users may read has no names. A
  // private debug file names it only where all of these may see that (NameAudience); those names
  // are kept apart.
  std::set<std::uint32_t> users{};
  // By who pays for the lines, as payer_of() has it. Lines are only asked for what is here.
  std::map<std::uint32_t, UserHits> hits_by_payer{};
};

// A file with the names of its hit bytes.
struct NamedFile {
  // None: the file can't be opened, is not an ELF file, or was written since it ran.
  std::optional<ElfSummary> elf{};
  std::string identity{};  // as file_identity() has it; empty where `elf` is none
  // Null where `elf` is none. Valid until the cache is trimmed.
  const NameTable* names = nullptr;
  NameSource missing = NameSource::kNoFile;  // why an address without entry has no name

  // The virtual address of a byte; none: no segment has it.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;
};

class FileNamer {
 public:
  // Of a process of which no uid is known. No user has it.
  static constexpr std::uint32_t kUnknownUser = 0xffff'ffff;

  // The references must outlive *this.
  FileNamer(Parser& parser, LineNamer& lines, NameCache& cache, DebugDirectories directories = {},
            UidOwners owners = UidOwners())
      : parser_(parser),
        lines_(lines),
        cache_(cache),
        debug_files_(parser, std::move(directories)),
        owners_(std::move(owners)) {
    debug_files_.have_changed();
  }

  [[nodiscard]] Parser& parser() { return parser_; }

  [[nodiscard]] NamedFile name(const HitFile& hit, SymbolBudgets& budgets);

  // The user who pays for what processes of this uid hit (uid_owners.h).
  [[nodiscard]] std::uint32_t payer_of(std::uint32_t uid) { return owners_.owner_of(uid); }

  // Adds inlined functions, files and lines to the names that name() has found for these files: at
  // first for the addresses that samples of root hit, the file with most samples first, and of each
  // file the address with most samples; then for those of users in the same order.
  void add_lines(std::span<const HitFile* const> files, LineBudget& budget);

  // The same as name() for the vDSO, of which profd has its own copy.
  [[nodiscard]] NamedFile name_vdso(const std::map<std::uint64_t, std::uint64_t>& samples_by_offset,
                                    SymbolBudgets& budgets);

  [[nodiscard]] const DebugFileStats& debug_file_stats() const { return debug_files_.stats(); }
  [[nodiscard]] std::uint64_t looked_up() const { return looked_up_; }  // addresses

  // Drops what is kept for files that are not used any more, after NameCache::kUnused. When debug
  // files were installed, names that one of them may improve are looked up again where they are
  // hit.
  void trim(NameCache::Clock::time_point now = NameCache::Clock::now());

 private:
  struct Source {
    int fd = -1;
    std::string path;
    std::uint32_t owner = 0;
    std::span<const HitProcess> processes{};
    NameAudience audience = NameAudience::kRoot;
  };

  NamedFile name(const Source& source, const ElfSummary& elf, const std::string& identity,
                 const std::map<std::uint64_t, std::uint64_t>& samples_by_offset,
                 SymbolBudgets& budgets);
  // Of a file: none where it can't be read. `retry`: it may be readable later.
  struct Summary {
    std::optional<ElfSummary> elf{};
    std::optional<Backoff> retry{};
    NameCache::Clock::time_point used_at{};
  };
  [[nodiscard]] const ElfSummary* find_summary(const FileKey& key) const;
  const ElfSummary* find_or_read(const MappedFile& file, SymbolBudgets& budgets);
  bool read_summary(const MappedFile& file, Summary& summary);
  struct Unknown {
    std::vector<std::uint64_t> addresses{};  // that were not looked up yet
    std::vector<std::uint64_t> gaps{};       // that had no name, and the file no debug file

    void add_gaps();
  };
  [[nodiscard]] static Unknown unknown_of(
      const NamedFile& named, const Source& source,
      const std::map<std::uint64_t, std::uint64_t>& samples_by_offset);
  // By which the names of a file are kept: its identity; private ones are kept by audience.
  [[nodiscard]] std::string key_of_names(const std::string& identity, NameAudience audience) const;
  // A file with addresses that one user's samples hit and that may have lines, the one with most
  // samples first.
  struct Pending {
    const HitFile* hit = nullptr;
    const ElfSummary* elf = nullptr;
    std::string identity{};
    std::string key{};  // of its names
    NameTable* names = nullptr;
    std::uint32_t payer = 0;
    std::vector<std::uint64_t> addresses{};
    std::uint64_t samples = 0;  // that hit one of them, at most
  };
  void add_pending(const HitFile& hit, std::vector<Pending>& pending);
  void add_lines(Pending& pending, LineBudget& budget);
  // Returns why the addresses that are not in `names` afterwards have no name.
  NameSource look_up(const Source& source, int debug_fd,
                     const std::vector<std::uint64_t>& addresses, SymbolBudget& budget,
                     NameTable& names);

  Parser& parser_;
  LineNamer& lines_;
  NameCache& cache_;
  PoolMap<FileKey, Summary> summaries_;
  UniqueFd vdso_;
  DebugFileFinder debug_files_;
  UidOwners owners_;
  std::set<std::string> with_private_names_;  // identities
  std::uint64_t looked_up_ = 0;
};

}  // namespace profd
