// The unwind tables that the sampling programs have: put into the arenas, shared by files of equal
// content, evicted when memory is short, looked up for stacks that are unwound late.
//
// Files of equal content (a name made of owner, build id and keyed digest) share one table. Every
// region of a known file that code is mapped from has an entry, PROFD_TABLE_NONE where there are no
// rows: a stack that meets no entry at all is sent late. Memory, entries and rules are bounded (see
// table_budget.h). What was sampled least recently goes first; what was sampled in the last kHot is
// not given up for something new.
//
// Owned by the io thread. Times are CLOCK_MONOTONIC nanoseconds.

#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/unwinding/rule_dictionary.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/table_arenas.h"
#include "collectors/unwinding/table_budget.h"
#include "collectors/unwinding/table_maps.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// The regions of a file (offset >> PROFD_FILE_REGION_SHIFT) that code is mapped from. A file of more than
// 4 GiB has no table.
using FileRegions = std::bitset<256>;
[[nodiscard]] FileRegions regions_of(std::uint64_t file_offset, std::uint64_t bytes,
                               std::uint64_t file_bytes);

// A file, and the code of it that is mapped.
struct MappedCode {
  FileKey key;
  std::uint32_t owner = 0;  // uid
  FileRegions regions;
  bool pinned = false;  // never evicted: of what programs have no second way to
};

struct UnwindTablesLimits {
  std::size_t max_bytes = std::size_t{40} << 20;  // of arenas
  std::uint32_t arena_words = PROFD_ARENA_WORDS;
  std::size_t max_entries = PROFD_MAX_TABLES;
  std::size_t max_rules_of_table = 4096;
};

class UnwindTables {
 public:
  static constexpr std::chrono::seconds kHot{20};
  // Known at a time, with a table or refused. Of more, and none cold, nothing is remembered.
  static constexpr std::size_t kMaxFiles = 16'384;
  // How often the programs are made to say again what they use.
  static constexpr std::chrono::seconds kRefreshInterval{10};

  UnwindTables(std::unique_ptr<TableMaps> maps, const UnwindTablesLimits& limits);

  enum class State {
    kUnknown,  // nothing was said of the file yet, or it was evicted
    kReady,
    kNone,  // frame pointers
  };
  [[nodiscard]] State state(const FileKey& file) const;

  // Whether the content is there already; if so, the file has its table from here on.
  [[nodiscard]] bool share(const MappedCode& file, const std::string& content);

  // Copies the table, or says why there is no room for it.
  std::optional<TableRefusal> install(const MappedCode& file, const std::string& content,
                                      const UnwindTableView& table);

  // The same where the file has another table by now, which goes; also where the new one finds no
  // room. For a moment the file has none. Waits for what the programs run now.
  std::optional<TableRefusal> replace(const MappedCode& file, const std::string& content,
                                      const UnwindTableView& table);

  // From here on the file has no table.
  void refuse(const MappedCode& file, TableRefusal reason);

  // Takes a refusal back.
  void forget(const FileKey& file);

  // More code of a known file was mapped.
  void cover(const FileKey& file, const FileRegions& regions);

  // As the programs find it: PROFD_RULE_UNKNOWN for a place without rows.
  [[nodiscard]] profd_rule find_rule(const FileKey& file, std::uint64_t offset) const;

  // Call about once a second: refreshes the times of use.
  void tick(std::uint64_t now_ns);

  // Fills in what is known here.
  void add_to(UnwindStats& stats) const;

 private:
  // A table and the files that share it; or a file that has none, without regions.
  struct Content {
    std::string name;
    std::uint32_t owner = 0;
    bool refused = false;
    bool pinned = false;
    std::uint64_t since_ns = 0;  // when something of it was added last
    std::uint64_t rows = 0;
    std::vector<PlacedRegion> regions;
    std::vector<std::uint32_t> rules;
    std::map<FileKey, FileRegions> entries;  // by file: its regions that have one
  };
  using Contents = std::list<Content>;

  std::optional<TableRefusal> store(Content& content, const UnwindTableView& table);
  bool place(Content& content, const UnwindTableView& table);
  std::optional<ArenaBlock> take_block(std::uint32_t owner, std::uint64_t words);
  std::optional<TableRefusal> take_rules(Content& content, const UnwindTableView& table);
  void add_content(const MappedCode& file, Content content);
  void add_file(Content& content, const MappedCode& file);
  bool make_room_for_file(std::uint32_t owner);
  void add_entries(Content& content, const FileKey& file, const FileRegions& regions);

  TableShortage make_room(std::uint32_t owner, const TableUse& more);
  bool evict(std::uint32_t owner, TableShortage shortage, const TableUse& more);
  std::vector<Contents::iterator> coldest_first(std::uint32_t owner, TableShortage shortage);
  [[nodiscard]] std::uint64_t last_used_ns(const Content& content) const;
  void unpublish(const Content& content);
  void free_all(Contents& gone);

  [[nodiscard]] const PlacedRegion* find_region(const FileKey& file, std::uint64_t offset) const;

  UnwindTablesLimits limits_;
  std::unique_ptr<TableMaps> maps_;
  TableArenas arenas_;
  RuleDictionary rules_;
  TableBudget budget_;
  Contents contents_;
  std::map<std::string, Content*> by_name_;
  std::map<FileKey, Content*> by_file_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_refresh_ns_ = 0;
  // When nothing cold was found last, by whose would have had to go.
  std::map<std::pair<TableShortage, std::uint32_t>, std::uint64_t> failed_evictions_;
  std::uint64_t evicted_ = 0;
  std::array<std::uint64_t, kTableRefusalCount> refused_{};
};

}  // namespace profd
