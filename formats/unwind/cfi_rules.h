// Converts a state of call frame information to an unwind rule, if a rule can express it.
//
// DWARF expressions are not evaluated. The few forms that compilers, linkers and hand-written code
// use are recognized (cfi_rules.cc); for any other the rule is unknown.

#pragma once

#include <optional>

#include "formats/unwind/cfi_program.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct RuleWithLoss {
  profd_rule rule{};
  // Why the rule is unknown, or can't express where rbp or rbx is.
  std::optional<CfiLoss> loss;
};

[[nodiscard]] RuleWithLoss rule_of(const CfiState& state, bool is_signal_frame);

}  // namespace profd
