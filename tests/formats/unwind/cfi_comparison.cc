#include "tests/formats/unwind/cfi_comparison.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/formats/unwind/find_rule.h"

namespace profd::test {
namespace {

// Offsets at which a row begins.
std::vector<std::uint64_t> boundaries(const UnwindTableView& table) {
  std::vector<std::uint64_t> offsets;
  for (const UnwindRegionView& region : table.regions) {
    const std::uint64_t start = (std::uint64_t{region.header.region} << PROFD_FILE_REGION_SHIFT) +
                                (std::uint64_t{region.header.first_bucket} << PROFD_BUCKET_SHIFT);
    for (std::uint64_t bucket = 0; bucket < region.header.bucket_count; ++bucket) {
      for (std::uint32_t i = region.bucket_starts[bucket]; i < region.bucket_starts[bucket + 1];
           ++i) {
        offsets.push_back(start + (bucket << PROFD_BUCKET_SHIFT) +
                          profd_row_offset(region.rows[i]));
      }
    }
  }
  return offsets;
}

bool is_end(const CallerFrame& caller) { return caller.return_address.how == Got::kNever; }

// Whether both are equal, or the rule has lost the register, which is counted. A register that CFI
// doesn't mention is unchanged, since rbx and rbp are callee-saved; libdw's table of callee-saved
// registers has rax in place of rbx, so its result is "undefined".
bool agree(const Got& ours, const Got& theirs, std::size_t& lost) {
  if (ours == theirs) return true;
  if (theirs.how == Got::kNever) return ours.how == Got::kUnchanged;
  if (ours.how == Got::kNever) ++lost;
  return ours.how == Got::kNever;
}

class Comparison {
 public:
  Comparison(const std::string& path, const LibdwCfi& libdw, const UnwindTableView& table,
             CfiTally& tally)
      : path_(path), libdw_(libdw), table_(table), boundaries_(boundaries(table)), tally_(tally) {}

  void compare_all() {
    for (const LibdwCfi::Range& function : libdw_.functions()) {
      compare(function);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  void compare(const LibdwCfi::Range& function) {
    ++tally_.functions;
    for (std::uint64_t at = function.start; at < function.end;) {
      const auto row = libdw_.row_at(at);
      if (!row || row->end <= at) {
        tally_.refused += 1;
        return;
      }
      const std::uint64_t end = std::min(row->end, function.end);
      compare_at(at, row->caller);
      compare_within(at, end);
      at = end;
    }
  }

  // An address at which a row begins in the middle of a row of libdw.
  void compare_within(std::uint64_t start, std::uint64_t end) {
    const auto offset = libdw_.offset_of(start);
    if (!offset) return;
    for (auto next = std::ranges::upper_bound(boundaries_, *offset);
         next != boundaries_.end() && *next < *offset + (end - start); ++next) {
      const std::uint64_t at = start + (*next - *offset);
      const auto row = libdw_.row_at(at);
      if (row) compare_at(at, row->caller);
    }
  }

  void compare_at(std::uint64_t address, const CallerFrame& theirs) {
    const auto offset = libdw_.offset_of(address);
    ASSERT_TRUE(offset) << path_ << std::hex << " " << address;
    ++tally_.addresses;
    const auto ours = caller_by_rule(find_rule(table_, *offset), address);
    if (!ours) {
      ++tally_.unknown;
      return;
    }
    ASSERT_EQ(is_end(*ours), is_end(theirs)) << path_ << std::hex << " " << address;
    if (is_end(theirs)) return;
    const bool same = ours->cfa == theirs.cfa && ours->return_address == theirs.return_address &&
                      theirs.rsp_is_cfa && agree(ours->rbp, theirs.rbp, tally_.lost_registers) &&
                      agree(ours->rbx, theirs.rbx, tally_.lost_registers);
    ASSERT_TRUE(same) << path_ << std::hex << " " << address << " cfa " << ours->cfa << " "
                      << theirs.cfa << " rbp " << ours->rbp.how << " " << ours->rbp.value << " "
                      << theirs.rbp.how << " " << theirs.rbp.value << " rbx " << ours->rbx.how
                      << " " << ours->rbx.value << " " << theirs.rbx.how << " " << theirs.rbx.value
                      << " rsp " << theirs.rsp_is_cfa;
  }

  const std::string& path_;
  const LibdwCfi& libdw_;
  const UnwindTableView& table_;
  std::vector<std::uint64_t> boundaries_;
  CfiTally& tally_;
};

}  // namespace

void compare_with_libdw(const std::string& name, const LibdwCfi& libdw,
                        const UnwindTableView& table, CfiTally& tally) {
  Comparison(name, libdw, table, tally).compare_all();
}

}  // namespace profd::test
