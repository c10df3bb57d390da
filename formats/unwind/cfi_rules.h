// One state of call frame information as a rule that the unwinder can follow, where there is one.
//
// DWARF expressions are not evaluated: the few shapes that compilers, linkers and hand-written code
// use are known (see cfi_rules.cc), anything else is unknown.

#pragma once

#include <optional>

#include "formats/unwind/cfi_program.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct RuleWithLoss {
  profd_rule rule{};
  // Why the rule is unknown, or tells no way to rbp or rbx.
  std::optional<CfiLoss> loss;
};

[[nodiscard]] RuleWithLoss rule_of(const CfiState& state, bool is_signal_frame);

}  // namespace profd
