// The generations of JIT code that one layer of a JitCodeIndex holds, found by address and time.
//
// The address space is cut into cells on levels: on level n a cell has 256 * 4^n bytes. A
// generation is listed on the lowest level whose cells are twice as large as it is, so in one cell
// or two, whatever its size. A look-up goes through one cell a level that is in use, and in it from
// the time asked for backwards: there are few other functions in a cell, so few steps. All steps
// are bounded, since other users' files fill the cells.
//
// About 100 bytes each, and the name. Nothing is copied as it grows.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/base/seeded_hash.h"

namespace profd {

// One row. A cache line of it.
struct JitGeneration {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 2^64 - 1: all there is
  std::uint64_t born_ns = 0;
  std::uint64_t serial = 0;
  std::uint64_t code_offset = 0;  // where the bytes are or, without any, would be
  // The records of lines and unwind data lie before the code: by how much.
  std::uint32_t debug_info_back = 0;
  std::uint32_t debug_info_bytes = 0;
  std::uint32_t unwinding_back = 0;
  std::uint32_t unwinding_bytes = 0;
  std::uint32_t name_offset = 0;
  std::uint16_t source = 0;
  std::uint16_t name_bytes : 13 = 0;
  std::uint16_t is_function : 1 = 1;  // 0: nothing lives here any more
  std::uint16_t has_code : 1 = 0;
  mutable std::uint16_t was_asked_for : 1 = 0;  // lately

  [[nodiscard]] bool covers(std::uint64_t at) const { return at - address < bytes; }
  [[nodiscard]] bool overlaps(std::uint64_t start, std::uint64_t length) const {
    return start - address < bytes || address - start < length;
  }
  [[nodiscard]] bool is_older_than(const JitGeneration& other) const {
    return born_ns != other.born_ns ? born_ns < other.born_ns : serial < other.serial;
  }
};

static_assert(sizeof(JitGeneration) == 64);

class JitGenerations {
 public:
  // `generation`'s name place is set here. False: it comes too late, thousands that lie beside it
  // are younger.
  [[nodiscard]] bool add(JitGeneration generation, std::string_view name);

  // Of those that cover the address, the youngest that was born at `time_ns` or before; none where
  // that is older than `floor` (nullptr: any age).
  [[nodiscard]] const JitGeneration* youngest(std::uint64_t address, std::uint64_t time_ns,
                                              const JitGeneration* floor) const;
  // Of functions that cover the address, the oldest that was born after `time_ns`; none where that
  // is younger than `ceiling`.
  [[nodiscard]] const JitGeneration* earliest_after(std::uint64_t address, std::uint64_t time_ns,
                                                    const JitGeneration* ceiling) const;
  // Whether one older than `newer` has this range and name.
  [[nodiscard]] bool told_before(const JitGeneration& newer, std::uint64_t address,
                                 std::uint64_t bytes, std::string_view name) const;
  // Whether one younger than that overlaps its range. True as well where it takes too long to tell.
  [[nodiscard]] bool is_overlaid(const JitGeneration& generation) const;

  [[nodiscard]] std::string_view name_of(const JitGeneration& generation) const {
    return std::string_view(names_[generation.name_offset / kNamesBytes])
        .substr(generation.name_offset % kNamesBytes, generation.name_bytes);
  }
  [[nodiscard]] const std::deque<JitGeneration>& rows() const { return rows_; }
  [[nodiscard]] std::size_t functions() const { return functions_; }
  [[nodiscard]] std::size_t name_bytes() const { return name_bytes_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr unsigned kLevels = 29;
  static constexpr std::size_t kNamesBytes = 65536;

  // A piece of ids_: rows of this cell, the oldest first.
  struct Cell {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t room = 0;
  };
  struct CellHash {
    using is_avalanching = void;
    std::uint64_t seed;
    std::size_t operator()(std::uint64_t key) const {
      SeededHash hash(seed);
      hash.add(key);
      return hash.value();
    }
  };

  [[nodiscard]] std::span<const std::uint32_t> cell_at(unsigned level, std::uint64_t address) const;
  void set_name(JitGeneration& generation, std::string_view name);
  [[nodiscard]] bool is_far_behind(std::uint64_t key, const JitGeneration& generation) const;
  [[nodiscard]] bool is_overlaid_in(std::uint64_t key, const JitGeneration& generation,
                                    std::size_t& steps) const;
  void list(std::uint64_t key, std::uint32_t row);
  std::uint32_t* make_room(Cell& cell);
  [[nodiscard]] std::size_t first_after(std::span<const std::uint32_t> ids,
                                        std::uint64_t time_ns) const;

  static std::uint64_t random_seed();

  std::deque<JitGeneration> rows_;
  std::vector<std::string> names_;  // of kNamesBytes each
  boost::unordered_flat_map<std::uint64_t, Cell, CellHash> cells_{0, CellHash{random_seed()}};
  std::vector<std::uint32_t> ids_;
  std::array<std::size_t, kLevels> on_level_{};
  std::size_t functions_ = 0;
  std::size_t name_bytes_ = 0;
};

// A row, and where its name is.
struct JitLayerRow {
  const JitGeneration* generation = nullptr;
  const JitGenerations* layer = nullptr;
};

}  // namespace profd
