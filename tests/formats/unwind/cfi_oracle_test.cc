// The rows of many system libraries and programs agree with libdw at every address of every FDE.

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"
#include "tests/formats/unwind/cfi_comparison.h"
#include "tests/formats/unwind/libdw_cfi.h"

namespace profd {
namespace {

using test::CfiTally;
using test::LibdwCfi;

constexpr std::size_t kFiles = 400;
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{6} << 20;

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

void compare(const std::string& path, CfiTally& tally) {
  const auto libdw = LibdwCfi::open(path);
  if (!libdw || libdw->functions().empty()) return;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto encoded = make_unwind_table(fd.get(), -1);
  ASSERT_TRUE(encoded) << path << ": " << encoded.error().message;
  const auto table = read_unwind_table(*encoded);
  ASSERT_TRUE(table) << path << ": " << table.error().message;
  test::compare_with_libdw(path, *libdw, *table, tally);
  ++tally.files;
}

TEST(CfiOracle, RowsOfSystemLibrariesAgreeWithLibdwAtEveryAddress) {
  CfiTally tally;
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
