// A file's unwind rows in the form in which they travel (parser to daemon) and lie on the disk
// (cache), and in which the kernel side's arenas take them: see bpf/unwind_rows.h for rows, rules,
// buckets and regions.
//
// The encoded bytes, little endian, every count checked by the reader:
//
//     UnwindTableHeader
//     profd_rule[rule_count]       the file's own dictionary: a row's PROFD_RULE_IN_DICTIONARY
//     index
//                                  counts from PROFD_RULE_FIRST_FREE here
//     for each region, by number:   UnwindRegionHeader
//                                  u32[bucket_count + 1]   index into the region's rows
//                                  u32[row_count]          rows; the first is the sentinel, in no
//                                                          bucket: for what lies before the first
//
// Pure values; nothing here reads a file.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "bpf/unwind_rows.h"
#include "formats/base/result.h"

namespace profd {

// Why a part of the code has no rule that can be followed, counted by FDE.
enum class CfiLoss : std::uint8_t {
  kMalformed,       // bytes that are no CFI, or lead out of their section
  kUnsupportedCfa,  // a CFA expression that is none of the known ones, or of an unknown register
  kUnsupportedRegister,  // a saved rbp, rbx or return address that a rule can't tell
  kOutsideCode,          // addresses in no executable segment
  kOverlap,              // code that another FDE describes already
  kOverLimit,            // more rows, rules or state than is allowed
};
inline constexpr std::size_t kCfiLossCount = 6;
[[nodiscard]] std::string_view name_of(CfiLoss loss);

// From `offset` on, up to the next row. Rows of addresses that nothing describes are
// PROFD_RULE_UNKNOWN.
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
  std::uint32_t region;         // offset >> PROFD_FILE_REGION_SHIFT
  std::uint32_t first_bucket;  // offset within the region >> PROFD_BUCKET_SHIFT
  std::uint32_t bucket_count;
  std::uint32_t row_count;
};

// At most this many dictionary rules in one table: the largest of 3,389 files has 845. Whoever
// makes a file with more can't fill the dictionary of all files with it.
inline constexpr std::size_t kMaxTableRules = 4096;
inline constexpr std::uint64_t kMaxTableRows = std::uint64_t{4} << 20;

// Takes rows by rising offset and encodes them: neighbours with the same rule become one row, a row
// of no length none. The last row should be PROFD_RULE_UNKNOWN, for it holds to its bucket's end.
// What is over a limit becomes unknown and counts as kOverLimit.
class UnwindTableWriter {
 public:
  void add(const UnwindRow& row);
  void count_loss(CfiLoss loss, std::uint32_t times = 1);
  [[nodiscard]] bool is_full() const { return row_count_ >= kMaxTableRows; }

  // Leaves the writer empty. kTooLarge: more bytes than 2^31.
  [[nodiscard]] Result<std::string> encode();

 private:
  struct Region {
    UnwindRegionHeader header{};
    std::vector<std::uint32_t> bucket_starts;
    std::vector<std::uint32_t> rows;
  };

  // A rule as a row has it: PROFD_RULE_BITS bits.
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
  profd_rule last_rule_{};  // and its code: runs of one rule are common
  std::uint32_t last_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint64_t pending_offset_ = 0;  // the last row's: one at the same place replaces it
  std::uint32_t pending_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint32_t current_code_ = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
  std::uint64_t row_count_ = 0;
  std::uint32_t lost_[kCfiLossCount] = {};
};

struct UnwindRegionView {
  UnwindRegionHeader header;
  std::span<const std::uint32_t> bucket_starts;
  std::span<const std::uint32_t> rows;
};

// Borrows the bytes, which must be aligned to 8. Everything is checked once: a table that is read
// is safe to index. Its meaning is not: that a rule leads up the stack is checked where it is
// followed.
struct UnwindTableView {
  UnwindTableHeader header;
  std::span<const profd_rule> rules;
  std::vector<UnwindRegionView> regions;
};
[[nodiscard]] Result<UnwindTableView> read_unwind_table(std::string_view bytes);

// The rule for a file offset, as the kernel side finds it; for tests and for tables outside the
// kernel.
[[nodiscard]] profd_rule find_rule(const UnwindTableView& table, std::uint64_t offset);

// A rule of a row without a dictionary, taken apart; and back, where it fits.
[[nodiscard]] profd_rule decode_inline_rule(std::uint32_t rule);
[[nodiscard]] std::optional<std::uint32_t> encode_inline_rule(const profd_rule& rule);

}  // namespace profd
