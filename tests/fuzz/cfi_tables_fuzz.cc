// Any bytes as an ELF file: an error, or a table that reads, twice the same, and whose every row is
// found.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"
#include "tests/formats/unwind/find_rule.h"
#include "tests/fuzz/require.h"

namespace {

void check_rows(const profd::UnwindTableView& table) {
  for (const profd::UnwindRegionView& region : table.regions) {
    const std::uint64_t start = std::uint64_t{region.header.region} << PROFD_FILE_REGION_SHIFT;
    for (std::uint64_t bucket = 0; bucket < region.header.bucket_count; ++bucket) {
      const profd_rule rule = profd::find_rule(
          table, start + ((region.header.first_bucket + bucket) << PROFD_BUCKET_SHIFT));
      require(rule.kind < PROFD_RULE_KIND_COUNT, "a rule of a known kind");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const profd::UniqueFd file(::memfd_create("cfi_tables_fuzz", MFD_CLOEXEC));
  require(::ftruncate(file.get(), 0) == 0, "ftruncate");
  require(::pwrite(file.get(), data, size, 0) == static_cast<ssize_t>(size), "pwrite");
  const auto source = profd::read_unwind_source(file.get(), {{1, 2}});
  const auto encoded = profd::make_unwind_table(file.get(), file.get());
  require(!source || encoded.has_value(), "a file with a source has a table");
  if (!encoded) return 0;
  const auto table = profd::read_unwind_table(*encoded);
  require(table.has_value(), "a table is one");
  check_rows(*table);
  const auto again = profd::read_unwind_source(file.get(), {{1, 2}});
  require(source.has_value() == again.has_value(), "the same again");
  require(!source || source->digest == again->digest, "the same digest again");
  return 0;
}
