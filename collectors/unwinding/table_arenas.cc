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
  if (!make_arena(block.arena)) {
    space_.release(block);
    return std::nullopt;
  }
  const profd_table table{.used_ns = 0,
                          .number = next_number(),
                          .arena = block.arena,
                          .buckets_at = block.at,
                          .first_bucket = region.header.first_bucket,
                          .bucket_count = region.header.bucket_count,
                          .state = PROFD_TABLE_READY,
                          .runtime = 0};
  return PlacedRegion{.number = region.header.region, .table = table, .block = block};
}

// One at a time. False: it has no memory, or not yet.
bool TableArenas::make_arena(std::uint32_t index) {
  if (arenas_.size() <= index) arenas_.resize(index + 1);
  while (arenas_[index].words.empty()) {
    const std::uint32_t next = being_made_.value_or(index);
    const auto made = maps_->make_arena(next);
    being_made_.reset();
    if (!made) return false;
    if (!*made) {
      being_made_ = next;
      return false;
    }
    arenas_[next].words = **made;
  }
  return true;
}

void TableArenas::drop_empty_arena() {
  bool has_dropped = false;
  for (std::uint32_t index = 1; index < arenas_.size(); ++index) {
    Arena& arena = arenas_[index];
    const bool is_empty = !arena.words.empty() && space_.is_empty(index);
    if (is_empty && arena.was_empty && !has_dropped && maps_->drop_arena(index)) {
      arena.words = {};
      has_dropped = true;
    }
    arena.was_empty = is_empty;
  }
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
      arenas_[region.block.arena].words.subspan(region.block.at, region.block.words);
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
  return profd_row_rule(row_for(arenas_[region.block.arena].words, region.table, bucket,
                                offset & PROFD_ROW_OFFSET_MASK));
}

std::uint64_t TableArenas::bytes_taken() const {
  return space_.words_taken() * sizeof(std::uint32_t);
}

std::uint64_t TableArenas::arena_bytes() const {
  const auto made =
      std::ranges::count_if(arenas_, [](const Arena& arena) { return !arena.words.empty(); });
  return static_cast<std::uint64_t>(made) * arena_words_ * sizeof(std::uint32_t);
}

}  // namespace profd
