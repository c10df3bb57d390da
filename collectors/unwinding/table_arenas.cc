#include "collectors/unwinding/table_arenas.h"

#include <algorithm>

namespace profd {
namespace {

// The row for an offset within a bucket: the last one at or before it, which may be the one before
// the bucket's first.
std::uint32_t row_for(std::span<const std::uint32_t> arena, const profd_table& table,
                      std::uint32_t bucket, std::uint32_t offset) {
  const std::uint32_t first = arena[table.buckets_at + bucket];
  const std::uint32_t last = arena[table.buckets_at + bucket + 1];
  const auto rows = arena.subspan(first, last - first);
  const auto after = std::ranges::upper_bound(rows, offset, {}, &profd_row_offset);
  return arena[first + static_cast<std::size_t>(after - rows.begin()) - 1];
}

}  // namespace

TableArenas::TableArenas(TableMaps& maps, std::size_t max_bytes, std::uint32_t arena_words)
    : maps_(&maps),
      arena_words_(arena_words),
      space_(std::min<std::size_t>(max_bytes / (arena_words * sizeof(std::uint32_t)),
                                   PROFD_MAX_ARENAS),
             arena_words) {}

std::uint64_t TableArenas::words_of(const UnwindRegionView& region) {
  return region.bucket_starts.size() + region.rows.size();
}

std::optional<PlacedRegion> TableArenas::place(const UnwindRegionView& region,
                                               const ArenaBlock& block) {
  if (!make_arenas()) {
    space_.release(block);
    return std::nullopt;
  }
  const profd_table table{.used_ns = 0,
                          .number = next_number(),
                          .arena = block.arena,
                          .buckets_at = block.at,
                          .first_bucket = region.header.first_bucket,
                          .bucket_count = region.header.bucket_count,
                          .state = PROFD_TABLE_READY};
  return PlacedRegion{.number = region.header.region, .table = table, .block = block};
}

// Creates the arenas that are in use and have no memory yet. False if there is none, or not yet.
bool TableArenas::make_arenas() {
  while (arenas_.size() < space_.arenas()) {
    const auto made = maps_->make_arena(static_cast<std::uint32_t>(arenas_.size()));
    is_making_arena_ = made && !*made;
    if (!made || !*made) return false;
    arenas_.push_back(**made);
  }
  return true;
}

// Ends, because there are far more numbers than tables.
std::uint32_t TableArenas::next_number() {
  do {
    last_number_ = last_number_ % PROFD_MAX_TABLE_NUMBER + 1;
  } while (!numbers_.insert(last_number_).second);
  return last_number_;
}

void TableArenas::write(const PlacedRegion& region, const UnwindRegionView& view,
                        std::span<const std::uint32_t> rules) {
  const std::span<std::uint32_t> words =
      arenas_[region.block.arena].subspan(region.block.at, region.block.words);
  const auto rows_at = region.block.at + static_cast<std::uint32_t>(view.bucket_starts.size());
  auto out = words.begin();
  for (const std::uint32_t start : view.bucket_starts) *out++ = rows_at + start;
  for (const std::uint32_t row : view.rows) {
    const std::uint32_t rule = profd_row_rule(row);
    const std::uint32_t local = rule & ~PROFD_RULE_IN_DICTIONARY;
    const bool own = rule != local && local >= PROFD_RULE_FIRST_FREE;
    const std::uint32_t global =
        own ? PROFD_RULE_IN_DICTIONARY | rules[local - PROFD_RULE_FIRST_FREE] : rule;
    *out++ = profd_row_offset(row) | global << PROFD_ROW_RULE_SHIFT;
  }
}

void TableArenas::release(const PlacedRegion& region) {
  space_.release(region.block);
  numbers_.erase(region.table.number);
}

std::optional<std::uint32_t> TableArenas::find_rule(const PlacedRegion& region,
                                                    std::uint32_t offset) const {
  const std::uint32_t bucket = (offset >> PROFD_BUCKET_SHIFT) - region.table.first_bucket;
  if (bucket >= region.table.bucket_count) return std::nullopt;
  return profd_row_rule(
      row_for(arenas_[region.block.arena], region.table, bucket, offset & PROFD_ROW_OFFSET_MASK));
}

std::uint64_t TableArenas::bytes_taken() const {
  return space_.words_taken() * sizeof(std::uint32_t);
}

std::uint64_t TableArenas::arena_bytes() const {
  return arenas_.size() * std::uint64_t{arena_words_} * sizeof(std::uint32_t);
}

}  // namespace profd
