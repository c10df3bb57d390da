// The memory in which the sampling programs read tables: regions are put into arenas, a number of
// its own for each, and read back as the programs do.
//
// Who may have how much, and what goes when all is taken, is not known here. Owned by the io
// thread.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "bpf/unwind_rows.h"
#include "collectors/unwinding/arena_space.h"
#include "collectors/unwinding/table_maps.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// A region of a file and where its rows are.
struct PlacedRegion {
  std::uint32_t number = 0;  // of the file
  profd_table table{};       // as the programs find it
  ArenaBlock block;
};

class TableArenas {
 public:
  // Takes at most `max_bytes`. `maps` must outlive *this, and those it is moved to.
  TableArenas(TableMaps& maps, std::size_t max_bytes, std::uint32_t arena_words);

  // What a region takes.
  [[nodiscard]] static std::uint64_t words_of(const UnwindRegionView& region);

  // None where no gap is large enough; then giving another region back may help.
  [[nodiscard]] std::optional<ArenaBlock> take(std::uint64_t words) {
    return space_.take(static_cast<std::uint32_t>(words));
  }

  // In a block of its words, with its number drawn, but without rows yet. None where the kernel has
  // no memory for the arena: the block is given back.
  [[nodiscard]] std::optional<PlacedRegion> place(const UnwindRegionView& region,
                                                 const ArenaBlock& block);

  // Copies the rows. `rules` is where those of the table's own dictionary stand in that of all.
  void write(const PlacedRegion& region, const UnwindRegionView& view,
             std::span<const std::uint32_t> rules);

  // Only once no program can be reading it.
  void release(const PlacedRegion& region);

  // The rule of a row, for an offset within the region. None where no row is.
  [[nodiscard]] std::optional<std::uint32_t> find_rule(const PlacedRegion& region,
                                                       std::uint32_t offset) const;

  [[nodiscard]] std::uint64_t words_in_all() const { return space_.words_in_all(); }
  [[nodiscard]] std::uint64_t bytes_taken() const;
  [[nodiscard]] std::uint64_t arena_bytes() const;  // of kernel memory by now

 private:
  bool make_arenas();
  std::uint32_t draw_number();

  TableMaps* maps_;
  std::uint32_t arena_words_;
  ArenaSpace space_;
  std::vector<std::span<std::uint32_t>> arenas_;
  std::set<std::uint32_t> numbers_;  // of tables
  std::uint32_t last_number_ = 0;
};

}  // namespace profd
