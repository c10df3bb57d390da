// The memory from which the sampling programs read tables: places the rows of file regions in
// arenas and reads them as the programs do. Owned by the io thread.

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

// A file region, and where its rows are.
struct PlacedRegion {
  std::uint32_t number = 0;  // file offset >> PROFD_FILE_REGION_SHIFT
  profd_table table{};       // the entry for the programs
  ArenaBlock block;
};

class TableArenas {
 public:
  // Uses at most `max_bytes`. `maps` must outlive the object, and the object it is moved to.
  TableArenas(TableMaps& maps, std::size_t max_bytes, std::uint32_t arena_words);

  // The words that a region needs.
  [[nodiscard]] static std::uint64_t words_of(const UnwindRegionView& region);

  // None if no gap is large enough; releasing another region may help.
  [[nodiscard]] std::optional<ArenaBlock> take(std::uint64_t words) {
    return space_.take(static_cast<std::uint32_t>(words));
  }

  // Assigns the region to a block of words_of(region) words and gives it a number; does not write
  // rows. None, and the block is released, if the kernel has no memory for the arena, or while it
  // is being made.
  [[nodiscard]] std::optional<PlacedRegion> place(const UnwindRegionView& region,
                                                  const ArenaBlock& block);

  // Whether place() may succeed soon, since an arena is being made.
  [[nodiscard]] bool is_making_arena() const { return being_made_.has_value(); }
  // To be called now and then meanwhile.
  void look_for_arena() {
    if (being_made_) (void)make_arena(*being_made_);
  }

  // Gives back the memory of an arena other than the first that was empty at the last call too.
  void drop_empty_arena();

  // Copies the rows. `rules` maps the table's own dictionary to places in the common one.
  void write(const PlacedRegion& region, const UnwindRegionView& view,
             std::span<const std::uint32_t> rules);

  // To be called when no program can be reading the region any more.
  void release(const PlacedRegion& region);

  // The rule bits of the row for an offset within the region. None if there is no row.
  [[nodiscard]] std::optional<std::uint32_t> find_rule(const PlacedRegion& region,
                                                       std::uint32_t offset) const;

  [[nodiscard]] std::uint64_t words_in_all() const { return space_.words_in_all(); }
  [[nodiscard]] std::uint64_t bytes_taken() const;
  [[nodiscard]] std::uint64_t arena_bytes() const;  // kernel memory of all arenas

 private:
  bool make_arena(std::uint32_t index);
  std::uint32_t next_number();

  TableMaps* maps_;
  std::uint32_t arena_words_;
  ArenaSpace space_;
  struct Arena {
    std::span<std::uint32_t> words{};  // empty: no memory
    bool was_empty = false;            // at the last drop_empty_arena()
  };
  std::vector<Arena> arenas_;
  std::optional<std::uint32_t> being_made_;
  std::set<std::uint32_t> numbers_;  // in use
  std::uint32_t last_number_ = 0;
};

}  // namespace profd
