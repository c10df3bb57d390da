// Adds inlined functions, files and lines to names that symbol tables gave, out of DWARF, which
// only the symbolizer reads.
//
// The outermost function keeps its name: the symbol table knows clones and aliases. On a worker.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectors/symbolizer/refused_files.h"
#include "collectors/symbolizer/symbolizer.h"
#include "daemon/names/line_budget.h"
#include "daemon/names/name_table.h"
#include "daemon/names/naming_stats.h"
#include "formats/base/pool_map.h"
#include "formats/base/seeded_hash.h"

namespace profd {

class LineNamer {
 public:
  // A file whose DWARF is read, and its debug file; -1 where there is none.
  struct Source {
    int fd = -1;
    int debug_fd = -1;
    std::string identity;       // as file_identity() has it
    std::uint32_t payer = 0;    // the user whose samples hit the addresses
    std::uint64_t samples = 0;  // that hit one of the addresses
  };

  LineNamer() : LineNamer(SymbolizerLimits{}) {}
  // `spawn` makes another child in tests.
  explicit LineNamer(const SymbolizerLimits& limits, const sandbox::Spawn& spawn = {})
      : roots_(limits, spawn), others_(limits, spawn ? spawn : user_symbolizer()) {}

  // Asks for addresses that `names` has, the most important first, as long as the payer has time.
  // What was not answered for want of it keeps its `may_have_lines`, and counts as lost for
  // kCpuTime, once the budget does not keep a rest. All addresses of a file that took long the last
  // time also keep it, until enough samples of the payer were without lines (LineBudget::is_worth).
  void add_lines(const Source& source, std::span<const std::uint64_t> addresses, NameTable& names,
                 LineBudget& budget);

  // Forgets what files of users took that no sample has hit for NameCache::kUnused.
  void trim(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::size_t known_files() const { return waiting_->size(); }

  // For a caller that has no request for a while. The next request starts a child again.
  void end_children();

  [[nodiscard]] pid_t child() const { return latest_->child(); }  // -1: none; for tests
  [[nodiscard]] LineStats stats() const;

 private:
  void add_all(const Source& source, const std::string& key,
               std::span<const std::uint64_t> addresses, NameTable& names, LineBudget& budget);
  [[nodiscard]] Symbolizer& symbolizer_for(const DwarfFiles& files);
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const {
    return roots_.cpu_time() + others_.cpu_time();
  }
  // Whether all addresses were answered.
  bool add_some(const DwarfFiles& files, const std::string& key,
                std::span<const std::uint64_t> addresses, std::chrono::nanoseconds time,
                NameTable& names, const LineBudget& budget);
  bool apply(const std::vector<DwarfAddress>& answers, NameTable& names, const LineBudget& budget);
  // Of addresses that nobody was asked for.
  void count_unasked(std::size_t addresses, const LineBudget& budget);
  void refuse(const std::string& key, DwarfLoss loss);

  // Of a file that was read: the time that it took, and the samples without lines since.
  struct Waiting {
    std::chrono::nanoseconds cost{};
    std::uint64_t samples = 0;
    bool is_users = false;  // users pay for the file
    std::chrono::steady_clock::time_point hit_at{};
  };

  // What a user's file does to the child that reads it can't change the names of root's files.
  Symbolizer roots_;
  Symbolizer others_;
  Symbolizer* latest_ = &roots_;
  const std::uint64_t seed_ = random_seed();
  PoolMap<std::uint64_t, Waiting> waiting_;  // by the hash of the key, which no user can predict
  RefusedFiles refused_;
  LineStats stats_;  // without what the symbolizer counts
};

}  // namespace profd
