// Every FDE of many system libraries and programs, address by address: our rows and libdw's agree.

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/cfi_tables.h"
#include "formats/unique_fd.h"
#include "tests/formats/libdw_cfi.h"

namespace profd {
namespace {

using test::CallerFrame;
using test::Got;
using test::LibdwCfi;

constexpr std::size_t kFiles = 400;
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{6} << 20;

struct Tally {
  std::size_t files = 0;
  std::size_t functions = 0;
  std::size_t addresses = 0;
  std::size_t unknown = 0;         // libdw knows the frame, we don't
  std::size_t lost_registers = 0;  // libdw knows rbp or rbx, we don't
  std::size_t refused = 0;         // the other way round: libdw refuses the function
};

// Those that every program uses and those with hand-written CFI first, then others by name.
std::vector<std::string> system_files() {
  const std::filesystem::path libraries = "/usr/lib/x86_64-linux-gnu";
  std::vector<std::string> files;
  std::set<std::filesystem::path> seen;
  const auto add = [&](const std::filesystem::path& path) {
    std::error_code error;
    const auto real = std::filesystem::canonical(path, error);
    if (!error && std::filesystem::is_regular_file(real) && seen.insert(real).second) {
      files.push_back(real);
    }
  };
  for (const char* name : {"libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libcrypto.so.3",
                           "libstdc++.so.6", "libgcc_s.so.1", "libgcrypt.so.20", "libz.so.1"}) {
    add(libraries / name);
  }
  for (const auto& folder : {libraries, std::filesystem::path("/usr/bin")}) {
    std::vector<std::filesystem::path> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const bool candidate =
          folder != libraries || entry.path().string().find(".so") != std::string::npos;
      if (candidate && entry.is_regular_file() && entry.file_size() < kMaxFileBytes) {
        names.push_back(entry.path());
      }
    }
    std::ranges::sort(names);
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 400); ++i) add(names[i]);
  }
  return files;
}

// Offsets at which a row begins.
std::vector<std::uint64_t> boundaries(const UnwindTableView& table) {
  std::vector<std::uint64_t> offsets;
  for (const UnwindPieceView& piece : table.pieces) {
    const std::uint64_t start = (std::uint64_t{piece.header.piece} << PROFD_PIECE_SHIFT) +
                                (std::uint64_t{piece.header.first_bucket} << PROFD_BUCKET_SHIFT);
    for (std::uint64_t bucket = 0; bucket < piece.header.bucket_count; ++bucket) {
      for (std::uint32_t i = piece.bucket_starts[bucket]; i < piece.bucket_starts[bucket + 1];
           ++i) {
        offsets.push_back(start + (bucket << PROFD_BUCKET_SHIFT) + profd_row_offset(piece.rows[i]));
      }
    }
  }
  return offsets;
}

bool is_end(const CallerFrame& caller) { return caller.return_address.how == Got::kNever; }

// Equal, or counted as lost by us. What CFI doesn't mention is unchanged, for rbx and rbp are
// callee-saved; libdw's own table of these has rax in rbx's place, so it says "undefined" there.
bool agree(const Got& ours, const Got& theirs, std::size_t& lost) {
  if (ours == theirs) return true;
  if (theirs.how == Got::kNever) return ours.how == Got::kUnchanged;
  if (ours.how == Got::kNever) ++lost;
  return ours.how == Got::kNever;
}

class Comparison {
 public:
  Comparison(const std::string& path, const LibdwCfi& libdw, const UnwindTableView& table,
             Tally& tally)
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

  // Where a row of ours begins in the middle of one of libdw's.
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
    const auto ours = test::caller_by_rule(find_rule(table_, *offset), address);
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
  Tally& tally_;
};

void compare(const std::string& path, Tally& tally) {
  const auto libdw = LibdwCfi::open(path);
  if (!libdw || libdw->functions().empty()) return;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto encoded = make_unwind_table(fd.get(), -1);
  ASSERT_TRUE(encoded) << path << ": " << encoded.error().message;
  const auto table = read_unwind_table(*encoded);
  ASSERT_TRUE(table) << path << ": " << table.error().message;
  Comparison(path, *libdw, *table, tally).compare_all();
  ++tally.files;
}

TEST(CfiOracle, RowsOfSystemLibrariesAgreeWithLibdwAtEveryAddress) {
  Tally tally;
  for (const std::string& path : system_files()) {
    if (tally.files == kFiles || testing::Test::HasFailure()) break;
    compare(path, tally);
  }
  RecordProperty("addresses", std::to_string(tally.addresses));
  std::printf(
      "%zu files, %zu functions, %zu addresses, %zu unknown, %zu registers lost, %zu refused\n",
      tally.files, tally.functions, tally.addresses, tally.unknown, tally.lost_registers,
      tally.refused);
  EXPECT_GE(tally.files, 50U);
  EXPECT_GE(tally.addresses, 200'000U);
  EXPECT_LE(tally.unknown, tally.addresses / 10'000);
  EXPECT_LE(tally.lost_registers, tally.addresses / 1000);
  EXPECT_LE(tally.refused, tally.functions / 10'000);
}

}  // namespace
}  // namespace profd
