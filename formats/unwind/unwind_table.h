// The encoded unwind rows of a file, as the parser sends them to the daemon and the cache stores
// them: bpf/unwind_rows.h defines rows, rules, buckets and file regions.
//
// Little endian; the reader checks every count:
//
//     UnwindTableHeader
//     profd_rule[rule_count]        the dictionary of this file: an index in a row counts from
//                                   PROFD_RULE_FIRST_FREE
//     for each region, by number:   UnwindRegionHeader
//                                   u32[bucket_count + 1]   index into the region's rows
//                                   u32[row_count]          rows; the first is the sentinel, which
//                                                           belongs to no bucket

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "bpf/unwind_rows.h"
#include "formats/base/result.h"

namespace profd {

// Why code has no usable rule. Counted once per FDE.
enum class CfiLoss : std::uint8_t {
  kMalformed,            // not CFI, or it points outside its section
  kUnsupportedCfa,       // an unknown CFA expression or register
  kUnsupportedRegister,  // a location of rbp, rbx or the return address that no rule can express
  kOutsideCode,          // addresses outside executable segments
  kOverlap,              // another FDE describes the code
  kOverLimit,            // too many rows, rules or remembered states
};
inline constexpr std::size_t kCfiLossCount = 6;
[[nodiscard]] std::string_view name_of(CfiLoss loss);

// A rule that is valid from `offset` up to the next row.
struct UnwindRow {
  std::uint64_t offset = 0;  // in the file
  profd_rule rule{};
};

inline constexpr std::string_view kUnwindTableMagic = "profdUT1";
struct UnwindTableHeader {
  char magic[8];  // kUnwindTableMagic
  std::uint32_t rule_count;
  std::uint32_t region_count;
  std::uint64_t row_count;  // of all regions, sentinels included
  std::uint32_t lost[kCfiLossCount];
};

struct UnwindRegionHeader {
  std::uint32_t region;        // offset >> PROFD_FILE_REGION_SHIFT
  std::uint32_t first_bucket;  // offset within the region >> PROFD_BUCKET_SHIFT
  std::uint32_t bucket_count;
  std::uint32_t row_count;
};

// Dictionary rules of one table: the largest of 3,389 files has 845. The limit keeps one file from
// filling the dictionary of all files.
inline constexpr std::size_t kMaxTableRules = 4096;
inline constexpr std::uint64_t kMaxTableRows = std::uint64_t{4} << 20;

// Encodes rows, which must be added by increasing offset. Adjacent rows with the same rule are
// merged, and rows of length 0 dropped. The last row should be PROFD_RULE_UNKNOWN, because it is
// valid up to the end of its bucket. Rows over a limit become unknown and are counted as
// kOverLimit.
class UnwindTableWriter {
 public:
  void add(const UnwindRow& row);
  void count_loss(CfiLoss loss, std::uint32_t times = 1);
  [[nodiscard]] bool is_full() const { return row_count_ >= kMaxTableRows; }

  // Leaves the writer empty. kTooLarge: more than 2^31 bytes.
  [[nodiscard]] Result<std::string> encode();

 private:
  struct Region {
    UnwindRegionHeader header{};
    std::vector<std::uint32_t> bucket_starts;
    std::vector<std::uint32_t> rows;
  };

  // The rule bits of a row.
  [[nodiscard]] std::uint32_t code_of(const profd_rule& rule);
  [[nodiscard]] std::uint32_t intern(const profd_rule& rule);
  void commit(std::uint64_t offset, std::uint32_t code);
  [[nodiscard]] bool has_room(std::uint32_t region) const;
  Region& region_for(std::uint64_t offset);
  void open_region(std::uint32_t region, std::uint32_t first_bucket);
  void fill_buckets(Region& region, std::size_t count);

  std::vector<Region> regions_;
  std::vector<profd_rule> rules_;
  boost::unordered_flat_map<std::array<std::uint64_t, 4>, std::uint32_t> codes_;
  profd_rule last_rule_{};  // a cache: consecutive rows often have equal rules
  std::uint32_t last_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint64_t pending_offset_ = 0;  // of the last row: one at the same offset replaces it
  std::uint32_t pending_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint32_t current_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint64_t row_count_ = 0;
  std::uint32_t lost_[kCfiLossCount] = {};
};

// Makes an encoded table, on another thread.
using EncodeTable = std::function<Result<std::string>()>;

struct UnwindRegionView {
  UnwindRegionHeader header;
  std::span<const std::uint32_t> bucket_starts;
  std::span<const std::uint32_t> rows;
};

// Borrows the bytes, which must be aligned to 8. read_unwind_table() checks all counts and indices,
// so the view is safe to index. It does not check that rules lead up the stack: the unwinder does.
struct UnwindTableView {
  UnwindTableHeader header;
  std::span<const profd_rule> rules;
  std::vector<UnwindRegionView> regions;
};
[[nodiscard]] Result<UnwindTableView> read_unwind_table(std::string_view bytes);

// Converts a rule from and to the bits of a row; none if it needs the dictionary.
[[nodiscard]] profd_rule decode_inline_rule(std::uint32_t rule);
[[nodiscard]] std::optional<std::uint32_t> encode_inline_rule(const profd_rule& rule);

}  // namespace profd
