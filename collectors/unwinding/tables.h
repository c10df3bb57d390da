// The unwind tables in the maps of the sampling programs. Files of equal content (a name made of
// owner, build id and keyed digest) share one table.
//
// Every region of a known file that code is mapped from has a map entry, PROFD_TABLE_NONE if it has
// no rows: a stack that meets a region without an entry is deferred. An entry has the number of the
// file's interpreter too (collectors/interpreters/runtimes.h). Memory, entries and rules are
// bounded (table_budget.h). The least recently sampled tables are evicted first. Those sampled in
// the last kHot are evicted only from users over their share. What is not sampled for kUnused is
// forgotten, with the memory that it took: refused files, tables of users, which are in the cache
// on disk (table_cache.h), and those of the JIT code of processes that have ended.
//
// Owned by the io thread. Times are CLOCK_MONOTONIC nanoseconds.

#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/process_users.h"
#include "collectors/unwinding/rule_dictionary.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/table_arenas.h"
#include "collectors/unwinding/table_budget.h"
#include "collectors/unwinding/table_maps.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// The regions of a file (offset >> PROFD_FILE_REGION_SHIFT) that code is mapped from. Only the
// first 4 GiB of a file can have rows.
using FileRegions = std::bitset<256>;
[[nodiscard]] FileRegions regions_of(std::uint64_t file_offset, std::uint64_t bytes,
                                     std::uint64_t file_bytes);

// A file and its regions that code is mapped from.
struct MappedCode {
  FileKey key;
  std::uint32_t payer = 0;  // uid (table_budget.h)
  FileRegions regions;
  bool pinned = false;  // never evicted: the programs do not ask for the table again
  // Of JIT code: its rows are not made again while they stay the same.
  std::optional<ProcessKey> process{};
  // Of the interpreter in the file (collectors/interpreters/runtimes.h); 0: none.
  std::uint16_t runtime = 0;
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
  static constexpr std::chrono::minutes kUnused{2};
  // Files with a table or refused. If none can be evicted, further files stay unknown.
  static constexpr std::size_t kMaxFiles = 8192;
  // How often the programs are made to drop their caches, so that they update the times of use.
  static constexpr std::chrono::seconds kRefreshInterval{10};

  // Is called for each file whose table or refusal is removed.
  using OnRemoved = std::function<void(const FileKey&)>;

  UnwindTables(std::unique_ptr<TableMaps> maps, const UnwindTablesLimits& limits,
               ProcessUsers::IsGone is_gone = profd::is_gone, OnRemoved on_removed = {});

  enum class State {
    kUnknown,  // neither installed nor refused, or evicted since
    kReady,
    kNone,  // refused: frame pointers are used
  };
  [[nodiscard]] State state(const FileKey& file) const;

  // Gives the file the table of that content. False if there is none.
  [[nodiscard]] bool share(const MappedCode& file, const std::string& content);

  // Copies the table into the maps, unless the file has one. Returns why there is no room for it.
  std::optional<TableRefusal> install(const MappedCode& file, const std::string& content,
                                      const UnwindTableView& table);

  // Installs the new table, and removes the file's old one then. Where there is no room for the new
  // one, the old one is removed too, unless memory is being made for both. Its own memory is free
  // when the programs that are running now have ended.
  std::optional<TableRefusal> replace(const MappedCode& file, const std::string& content,
                                      const UnwindTableView& table);

  // Records that the file has no table, and why. False: it is known already.
  bool refuse(const MappedCode& file, TableRefusal reason);

  // Makes a refused file unknown again.
  void forget(const FileKey& file);

  // Adds entries for more regions of a known file. Where root pays now, a user does not any more.
  void cover(const MappedCode& file);

  // Why a file is refused, and since when.
  struct Refusal {
    TableRefusal reason;
    std::uint64_t since_ns;
  };
  [[nodiscard]] std::optional<Refusal> refusal_of(const FileKey& file) const;

  // Who pays for the table of a known file, or for its refusal; root for an unknown one.
  [[nodiscard]] std::uint32_t payer_of(const FileKey& file) const;

  // The rule that the programs find; PROFD_RULE_UNKNOWN if there is no row.
  [[nodiscard]] profd_rule find_rule(const FileKey& file, std::uint64_t offset) const;

  // To be called about once a second, and before what was refused for lack of memory is tried
  // again while has_room_soon().
  void tick(std::uint64_t now_ns);

  // Whether removed tables still take memory, since programs may be reading them, or new memory is
  // being made.
  [[nodiscard]] bool has_room_soon() const { return is_freeing() || arenas_.is_making_arena(); }

  // Fills in the members about tables.
  void add_to(UnwindStats& stats) const;

 private:
  using RegionsOfFiles = std::pmr::map<FileKey, FileRegions>;
  // A table and the files that share it, or a file that was refused.
  struct SharedTable {
    SharedTable(std::string_view content_name, std::uint32_t uid, std::pmr::memory_resource* memory)
        : content(content_name, memory),
          payer(uid),
          regions(memory),
          rules(memory),
          entries(memory) {}
    // A copy in other memory.
    SharedTable(const SharedTable& other, std::pmr::memory_resource* memory);

    std::pmr::string content;
    std::uint32_t payer;
    std::optional<Refusal> refusal{};
    bool pinned = false;
    std::uint16_t runtime = 0;            // of the interpreter; files of equal content have one
    std::optional<ProcessKey> process{};  // of JIT code
    std::uint64_t changed_ns = 0;         // when an entry was last added
    std::uint64_t next_check_ns = 0;      // whether it is used
    std::uint64_t rows = 0;
    std::pmr::vector<PlacedRegion> regions;
    std::pmr::vector<std::uint32_t> rules;  // places in the dictionary
    RegionsOfFiles entries;                 // with a map entry
  };
  using SharedTables = std::pmr::list<SharedTable>;
  // Apart from other memory: a table stays until another one needs its room, and would keep a page
  // of what a flood of processes left.
  struct Known {
    std::pmr::unsynchronized_pool_resource memory;
    SharedTables tables{&memory};
    std::pmr::map<std::string_view, SharedTables::iterator> by_content{&memory};  // of the table
    std::pmr::map<FileKey, SharedTables::iterator> by_file{&memory};
  };

  std::optional<TableRefusal> store(SharedTable& shared, const UnwindTableView& table);
  bool place(SharedTable& shared, const UnwindTableView& table);
  std::optional<ArenaBlock> take_block(std::uint32_t payer, std::uint64_t words);
  std::optional<TableRefusal> take_rules(SharedTable& shared, const UnwindTableView& table);
  void add_table(const MappedCode& file, SharedTable shared);
  void add_file(SharedTables::iterator shared, const MappedCode& file);
  void take_over(SharedTable& shared, std::uint32_t payer);
  bool make_room_for_file(std::uint32_t payer);
  void add_entries(SharedTable& shared, const FileKey& file, const FileRegions& regions);

  // Both false if there is no room.
  bool make_room(std::uint32_t payer, const TableUse& more);
  bool evict(std::uint32_t payer, const TableUse& more, bool is_within_share);
  [[nodiscard]] bool is_freeing() const { return !removed_.empty(); }
  [[nodiscard]] bool is_over_share(std::uint32_t payer) const;
  [[nodiscard]] TableRefusal refusal_for(std::uint32_t payer, const TableUse& more) const;
  std::vector<SharedTables::iterator> candidates(std::uint32_t payer, bool is_within_share);
  [[nodiscard]] std::uint64_t last_used_ns(const SharedTable& shared) const;
  [[nodiscard]] static TableUse use_of(const SharedTable& shared);
  [[nodiscard]] SharedTables unpublish(const FileKey& file);
  void unpublish(SharedTables::iterator shared, SharedTables& removed);
  void free_all(const SharedTables& removed);
  void free_when_unused(SharedTables removed);
  void free_unused();
  void forget_unused();
  [[nodiscard]] static bool may_be_forgotten(const SharedTable& shared);
  [[nodiscard]] bool is_unused(SharedTable& shared);
  void give_back_memory();
  void move_to_new_memory();

  // Tables that no program finds any more, and the grace period after which none reads them.
  struct Removed {
    SharedTables tables;
    std::uint64_t grace_period;
  };

  UnwindTablesLimits limits_;
  std::unique_ptr<TableMaps> maps_;
  ProcessUsers::IsGone is_gone_;
  OnRemoved on_removed_;  // empty: nobody is called
  TableArenas arenas_;
  RuleDictionary rules_;
  TableBudget budget_;
  std::unique_ptr<Known> known_ = std::make_unique<Known>();
  std::size_t most_files_ = 0;   // since the memory of *known_ is new
  std::deque<Removed> removed_;  // with that memory
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_refresh_ns_ = 0;
  std::uint64_t next_scan_ns_ = 0;  // for what is not used
  // When an eviction last found nothing to evict, by the payer who is over the share; root: for all
  // who are within theirs.
  std::map<std::uint32_t, std::uint64_t> failed_evictions_ns_;
  std::uint64_t evicted_ = 0;
  std::array<std::uint64_t, kTableRefusalCount> refused_{};
};

}  // namespace profd
