#include "formats/jit/unwind_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/base/address_range.h"
#include "formats/base/errors.h"
#include "formats/unwind/cfi_entries.h"
#include "formats/unwind/cfi_program.h"

namespace profd {
namespace {

constexpr std::uint64_t kUserHalf = std::uint64_t{1} << 47;

std::optional<JitUnwindRows> rows_of(const CfiCie& cie, const CfiFde& fde,
                                     const AddressRange& bounds, std::size_t max_rows) {
  const auto initial = CfiProgram::initial_state(cie);
  if (!initial || fde.start < bounds.start || fde.start >= bounds.end) return std::nullopt;
  JitUnwindRows function{.start = fde.start,
                         .end = fde.start + std::min(fde.bytes, bounds.end - fde.start),
                         .rows = {}};
  CfiProgram program(cie, fde, *initial);
  for (bool more = true; more && function.rows.size() < max_rows;) {
    more = program.advance();
    if (program.address() >= function.end) break;
    const profd_rule rule =
        program.loss() ? profd_rule{} : rule_of(program.state(), cie.is_signal_frame).rule;
    function.rows.push_back({program.address(), rule});
    if (program.loss()) break;
  }
  if (function.rows.empty()) return std::nullopt;
  return function;
}

}  // namespace

Result<std::vector<JitUnwindRows>> read_jit_unwind_rows(std::string_view record,
                                                        const JitDumpState& state,
                                                        std::uint64_t code_address,
                                                        std::uint64_t code_bytes) {
  const auto info = split_unwinding_info(record, state);
  if (!info) return info.error();
  const bool is_whole_object = code_bytes == 0;
  // Where the record's code lies: for a whole object, anywhere.
  const AddressRange bounds = is_whole_object
                                  ? AddressRange{1, kUserHalf}
                                  : AddressRange{code_address, code_address + code_bytes};
  const CfiSection section{
      .bytes = std::string(info->eh_frame),
      .vaddr = is_whole_object ? 0 : assumed_eh_frame_address(code_address, code_bytes),
      .is_eh_frame = true,
      .has_known_end = true};
  std::vector<JitUnwindRows> functions;
  std::size_t room = kMaxJitUnwindRows;
  CfiEntries entries(section);
  while (const auto entry = entries.next()) {
    if (entry->is_cie || room == 0) continue;
    const auto cie_entry = read_cfi_entry(section, entry->cie_position);
    const auto cie = cie_entry ? read_cie(section, *cie_entry) : std::nullopt;
    const auto fde = cie ? read_fde(section, *entry, *cie) : std::nullopt;
    if (!fde) continue;
    auto function = rows_of(*cie, *fde, bounds, room);
    if (!function) continue;
    room -= function->rows.size();
    functions.push_back(std::move(*function));
  }
  if (functions.empty()) return malformed("the unwind data belongs to other code");
  return functions;
}

}  // namespace profd
