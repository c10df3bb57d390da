// Any bytes as a table of unwind rows: an error, or a table in which every place can be looked up.

#include <cstdint>
#include <string>

#include "formats/unwind/unwind_table.h"
#include "tests/formats/unwind/find_rule.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto table = profd::read_unwind_table(bytes);
  if (!table) return 0;
  for (const profd::UnwindRegionView& region : table->regions) {
    const std::uint64_t start = (std::uint64_t{region.header.region} << PROFD_FILE_REGION_SHIFT) +
                                (std::uint64_t{region.header.first_bucket} << PROFD_BUCKET_SHIFT);
    const std::uint64_t end =
        start + (std::uint64_t{region.header.bucket_count} << PROFD_BUCKET_SHIFT);
    for (std::uint64_t at = start; at < end; at += 256) {
      const profd_rule rule = profd::find_rule(*table, at);
      require(rule.kind < PROFD_RULE_KIND_COUNT, "a rule of a known kind");
      require(rule.cfa_register < PROFD_DWARF_REGISTERS, "a register that is one");
    }
    require(profd::find_rule(*table, end).kind < PROFD_RULE_KIND_COUNT, "behind the region");
  }
  return 0;
}
