// Finds a rule in an encoded table, as the BPF programs do in an arena.

#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/unwind/unwind_table.h"

namespace profd {

inline profd_rule find_rule(const UnwindTableView& table, std::uint64_t offset) {
  const std::uint64_t number = offset >> PROFD_FILE_REGION_SHIFT;
  const auto region = std::ranges::lower_bound(
      table.regions, number, {}, [](const UnwindRegionView& p) { return p.header.region; });
  if (region == table.regions.end() || region->header.region != number) return profd_rule{};
  const std::uint64_t bucket =
      (offset >> PROFD_BUCKET_SHIFT & (PROFD_BUCKETS_PER_FILE_REGION - 1)) -
      region->header.first_bucket;  // below it: wraps around
  if (bucket >= region->header.bucket_count) return profd_rule{};
  const std::uint32_t first = region->bucket_starts[bucket];
  const auto rows = region->rows.subspan(first, region->bucket_starts[bucket + 1] - first);
  const auto after = std::ranges::upper_bound(rows, offset & PROFD_ROW_OFFSET_MASK, {},
                                              [](std::uint32_t r) { return profd_row_offset(r); });
  const auto index = first + static_cast<std::uint32_t>(after - rows.begin()) - 1;
  const std::uint32_t rule = profd_row_rule(region->rows[index]);
  if ((rule & PROFD_RULE_IN_DICTIONARY) == 0) return decode_inline_rule(rule);
  const std::uint32_t in_dictionary = rule & ~PROFD_RULE_IN_DICTIONARY;
  profd_rule found{};
  if (in_dictionary == PROFD_RULE_INDEX_END) found.kind = PROFD_RULE_END;
  if (in_dictionary >= PROFD_RULE_FIRST_FREE) {
    found = table.rules[in_dictionary - PROFD_RULE_FIRST_FREE];
  }
  return found;
}

}  // namespace profd
