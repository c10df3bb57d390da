#include <algorithm>
#include <cstring>

#include "formats/base/errors.h"
#include "formats/unwind/unwind_table.h"

namespace profd {
namespace {

// Reads values and arrays from the front of the bytes, without copies of arrays.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  [[nodiscard]] std::optional<T> value() {
    T value;
    if (left_.size() < sizeof value) return std::nullopt;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }

  template <class T>
  [[nodiscard]] std::optional<std::span<const T>> array(std::size_t count) {
    if (left_.size() / sizeof(T) < count) return std::nullopt;
    const std::span<const T> taken(reinterpret_cast<const T*>(left_.data()), count);
    left_.remove_prefix(count * sizeof(T));
    return taken;
  }

  [[nodiscard]] bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
};

bool is_rule(const profd_rule& rule) {
  const auto known = [](std::uint8_t saved, std::int32_t offset) {
    return saved < PROFD_SAVED_COUNT &&
           (saved != PROFD_SAVED_REGISTER || (offset >= 0 && offset < PROFD_DWARF_REGISTERS));
  };
  return rule.kind < PROFD_RULE_KIND_COUNT && rule.cfa_register < PROFD_DWARF_REGISTERS &&
         rule.cfa_index <= PROFD_DWARF_REGISTERS && known(rule.ra_saved, rule.ra_offset) &&
         known(rule.rbp_saved, rule.rbp_offset) && known(rule.rbx_saved, rule.rbx_offset);
}

bool are_rows(std::span<const std::uint32_t> rows, std::size_t rules) {
  return std::ranges::all_of(rows, [&](std::uint32_t row) {
    const std::uint32_t rule = profd_row_rule(row);
    return (rule & PROFD_RULE_IN_DICTIONARY) == 0 ||
           (rule & ~PROFD_RULE_IN_DICTIONARY) < PROFD_RULE_FIRST_FREE + rules;
  });
}

// Buckets must cover all rows behind the sentinel, and be sorted.
bool are_buckets(const UnwindRegionView& region) {
  const auto& starts = region.bucket_starts;
  if (starts.front() != 1 || starts.back() != region.rows.size()) return false;
  if (!std::ranges::is_sorted(starts)) return false;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto rows = region.rows.subspan(starts[i], starts[i + 1] - starts[i]);
    const bool rising = std::ranges::adjacent_find(rows, std::ranges::greater_equal{},
                                                   profd_row_offset) == rows.end();
    if (!rising) return false;
  }
  return true;
}

bool is_placed(const UnwindRegionHeader& header) {
  return header.bucket_count > 0 && header.bucket_count <= PROFD_BUCKETS_PER_FILE_REGION &&
         header.first_bucket <= PROFD_BUCKETS_PER_FILE_REGION - header.bucket_count &&
         header.row_count > 0 && header.row_count < PROFD_ARENA_WORDS - header.bucket_count;
}

Result<UnwindRegionView> read_region(Reader& reader, std::size_t rules) {
  const auto header = reader.value<UnwindRegionHeader>();
  if (!header || !is_placed(*header)) return malformed("an unwind region with an invalid header");
  const auto starts = reader.array<std::uint32_t>(std::size_t{header->bucket_count} + 1);
  if (!starts) return malformed("an unwind region with truncated buckets");
  const auto rows = reader.array<std::uint32_t>(header->row_count);
  if (!rows) return malformed("an unwind region with truncated rows");
  const UnwindRegionView region{*header, *starts, *rows};
  if (!are_buckets(region)) return malformed("unwind rows that are out of order");
  if (!are_rows(region.rows, rules)) return malformed("an unwind row with an invalid rule index");
  return region;
}

}  // namespace

Result<UnwindTableView> read_unwind_table(std::string_view bytes) {
  Reader reader(bytes);
  UnwindTableView table{};
  const auto header = reader.value<UnwindTableHeader>();
  if (!header || std::string_view(header->magic, sizeof header->magic) != kUnwindTableMagic) {
    return malformed("not a table of unwind rows");
  }
  table.header = *header;
  if (header->rule_count > kMaxTableRules) return malformed("too many unwind rules");
  const auto rules = reader.array<profd_rule>(header->rule_count);
  if (!rules || !std::ranges::all_of(*rules, is_rule)) return malformed("malformed unwind rules");
  table.rules = *rules;
  std::uint64_t rows = 0;
  for (std::uint32_t i = 0; i < header->region_count; ++i) {
    const Result<UnwindRegionView> region = read_region(reader, table.rules.size());
    if (!region) return region.error();
    if (i > 0 && region->header.region <= table.regions.back().header.region) {
      return malformed("unwind regions that are out of order");
    }
    rows += region->rows.size();
    table.regions.push_back(*region);
  }
  if (!reader.at_end() || rows != header->row_count) {
    return malformed("a number of unwind rows that differs from the header");
  }
  return table;
}

}  // namespace profd
