#include "formats/jit/generations.h"

#include <algorithm>
#include <random>

namespace profd {
namespace {

// How far a look-up goes through cells of all levels together, and a late one is put back in its
// own. A process that fills its cells with more than that between two moments that are asked for
// loses names, not the daemon's time.
constexpr std::size_t kMaxSteps = 4096;

constexpr std::size_t kMaxCellsToCheck = 64;

// What JitGeneration::name_bytes holds.
constexpr std::uint16_t kMaxNameBytes = 0x1fff;

constexpr unsigned shift_of(unsigned level) { return 8 + 2 * level; }

unsigned level_of(std::uint64_t bytes) {
  unsigned level = 0;
  while (shift_of(level) < 64 && bytes > std::uint64_t{1} << (shift_of(level) - 1)) ++level;
  return level;
}

std::uint64_t cell_number(unsigned level, std::uint64_t address) {
  return shift_of(level) < 64 ? address >> shift_of(level) : 0;
}

// A number has 56 bits at most.
std::uint64_t key_of(unsigned level, std::uint64_t number) {
  return std::uint64_t{level} << 58 | number;
}

// The last byte, at most that of the address space.
std::uint64_t last_of(std::uint64_t address, std::uint64_t bytes) {
  return address + std::min(bytes - 1, ~address);
}

}  // namespace

std::uint64_t JitGenerations::random_seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

bool JitGenerations::add(JitGeneration generation, std::string_view name) {
  const std::uint64_t last = last_of(generation.address, generation.bytes);
  const unsigned level = level_of(generation.bytes);
  const std::uint64_t first_cell = key_of(level, cell_number(level, generation.address));
  const std::uint64_t last_cell = key_of(level, cell_number(level, last));
  if (is_far_behind(first_cell, generation) || is_far_behind(last_cell, generation)) return false;
  set_name(generation, name);
  const auto row = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back(generation);
  functions_ += generation.is_function ? 1 : 0;
  ++on_level_[level];
  list(first_cell, row);
  if (last_cell != first_cell) list(last_cell, row);
  return true;
}

// Whether it would have to be put before more than kMaxSteps others.
bool JitGenerations::is_far_behind(std::uint64_t key, const JitGeneration& generation) const {
  const auto found = cells_.find(key);
  if (found == cells_.end() || found->second.count <= kMaxSteps) return false;
  const Cell& cell = found->second;
  return generation.is_older_than(rows_[ids_[cell.first + cell.count - 1 - kMaxSteps]]);
}

void JitGenerations::set_name(JitGeneration& generation, std::string_view name) {
  name = name.substr(0, kMaxNameBytes);
  if (names_.empty() || names_.back().size() + name.size() > kNamesBytes)
    names_.emplace_back().reserve(kNamesBytes);
  const std::size_t offset = (names_.size() - 1) * kNamesBytes + names_.back().size();
  generation.name_offset = static_cast<std::uint32_t>(offset);
  generation.name_bytes = static_cast<std::uint16_t>(name.size()) & kMaxNameBytes;
  names_.back().append(name);
  name_bytes_ += name.size();
}

// A place for one more at the end of the cell's piece.
std::uint32_t* JitGenerations::make_room(Cell& cell) {
  if (cell.count == cell.room) {
    const std::uint32_t room = std::max(2U, cell.room * 2);
    const auto first = static_cast<std::uint32_t>(ids_.size());
    ids_.resize(ids_.size() + room);
    std::copy_n(ids_.begin() + cell.first, cell.count, ids_.begin() + first);
    cell.first = first;
    cell.room = room;
  }
  return ids_.data() + cell.first + cell.count++;
}

void JitGenerations::list(std::uint64_t key, std::uint32_t row) {
  std::uint32_t* place = make_room(cells_[key]);
  *place = row;
  const std::uint32_t* first = place + 1 - cells_[key].count;
  for (; place != first && rows_[row].is_older_than(rows_[place[-1]]); --place)
    std::swap(place[0], place[-1]);
}

std::span<const std::uint32_t> JitGenerations::cell_at(unsigned level,
                                                       std::uint64_t address) const {
  if (on_level_[level] == 0) return {};
  const auto cell = cells_.find(key_of(level, cell_number(level, address)));
  if (cell == cells_.end()) return {};
  return {ids_.data() + cell->second.first, cell->second.count};
}

std::size_t JitGenerations::first_after(std::span<const std::uint32_t> ids,
                                        std::uint64_t time_ns) const {
  const auto after = std::ranges::partition_point(
      ids, [&](std::uint32_t id) { return rows_[id].born_ns <= time_ns; });
  return static_cast<std::size_t>(after - ids.begin());
}

const JitGeneration* JitGenerations::youngest(std::uint64_t address, std::uint64_t time_ns,
                                              const JitGeneration* floor) const {
  const JitGeneration* best = nullptr;
  std::size_t steps = kMaxSteps;
  for (unsigned level = 0; level < kLevels; ++level) {
    const auto ids = cell_at(level, address);
    for (std::size_t i = first_after(ids, time_ns); i > 0 && steps > 0; --i, --steps) {
      const JitGeneration& row = rows_[ids[i - 1]];
      if (floor != nullptr && row.is_older_than(*floor)) break;
      if (!row.covers(address)) continue;
      best = &row;
      floor = &row;
      break;
    }
  }
  return best;
}

const JitGeneration* JitGenerations::earliest_after(std::uint64_t address, std::uint64_t time_ns,
                                                    const JitGeneration* ceiling) const {
  const JitGeneration* best = nullptr;
  std::size_t steps = kMaxSteps;
  for (unsigned level = 0; level < kLevels; ++level) {
    const auto ids = cell_at(level, address);
    for (std::size_t i = first_after(ids, time_ns); i < ids.size() && steps > 0; ++i, --steps) {
      const JitGeneration& row = rows_[ids[i]];
      if (ceiling != nullptr && ceiling->is_older_than(row)) break;
      if (!row.is_function || !row.covers(address)) continue;
      best = &row;
      ceiling = &row;
      break;
    }
  }
  return best;
}

bool JitGenerations::told_before(const JitGeneration& newer, std::uint64_t address,
                                 std::uint64_t bytes, std::string_view name) const {
  const auto ids = cell_at(level_of(bytes), address);
  const std::size_t after = first_after(ids, newer.born_ns);
  const auto some = ids.subspan(after - std::min(after, kMaxSteps), std::min(after, kMaxSteps));
  return std::any_of(some.rbegin(), some.rend(), [&](std::uint32_t id) {
    const JitGeneration& row = rows_[id];
    return row.is_older_than(newer) && row.address == address && row.bytes == bytes &&
           name_of(row) == name;
  });
}

bool JitGenerations::is_overlaid(const JitGeneration& generation) const {
  const std::uint64_t last = last_of(generation.address, generation.bytes);
  std::size_t steps = kMaxSteps;
  for (unsigned level = 0; level < kLevels; ++level) {
    if (on_level_[level] == 0) continue;
    const std::uint64_t first_cell = cell_number(level, generation.address);
    const std::uint64_t cells = cell_number(level, last) - first_cell;
    if (cells >= kMaxCellsToCheck) return true;
    for (std::uint64_t i = 0; i <= cells; ++i) {
      if (is_overlaid_in(key_of(level, first_cell + i), generation, steps)) return true;
    }
  }
  return false;
}

// The younger ones are at the end.
bool JitGenerations::is_overlaid_in(std::uint64_t key, const JitGeneration& generation,
                                    std::size_t& steps) const {
  const auto cell = cells_.find(key);
  if (cell == cells_.end()) return false;
  const std::span ids(ids_.data() + cell->second.first, cell->second.count);
  for (std::size_t i = ids.size(); i > 0; --i) {
    const JitGeneration& row = rows_[ids[i - 1]];
    if (!generation.is_older_than(row)) return false;
    if (steps == 0 || row.overlaps(generation.address, generation.bytes)) return true;
    --steps;
  }
  return false;
}

std::size_t JitGenerations::memory_bytes() const {
  using Slot = decltype(cells_)::value_type;
  return rows_.size() * sizeof(JitGeneration) + names_.size() * kNamesBytes +
         ids_.capacity() * sizeof(std::uint32_t) + cells_.bucket_count() * (sizeof(Slot) + 1);
}

}  // namespace profd
