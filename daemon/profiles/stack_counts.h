// The entry of one process image in session.json: how many of its samples have which kind of stack.
// Used on a worker.

#pragma once

#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/entry_functions.h"
#include "daemon/samples/snapshot.h"
#include "formats/api/session_summary.h"

namespace profd {

// The entry without path, samples and stacks, which depend on the form in which they are written.
[[nodiscard]] ProfileSummary count_stacks(const ProcessSnapshot& process, EntryFunctions& entries,
                                          SymbolBudgets& symbols);

}  // namespace profd
