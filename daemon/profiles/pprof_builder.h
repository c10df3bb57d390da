// Makes the profile with names (formats/profile/pprof_profile.h) of all processes of a session or
// window.
//
// Each location has the address in its file and the functions there, the innermost inlined one
// first; a location without a name is named after its file, in brackets. Control characters of
// names and labels, which programs choose, are '?': terminals would take them for commands. Used on
// a worker.

#pragma once

#include <string>
#include <vector>

#include "daemon/names/file_namer.h"
#include "daemon/names/kernel_names.h"
#include "daemon/names/line_budget.h"
#include "daemon/names/naming_stats.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/process_labels.h"
#include "daemon/samples/snapshot.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// What the profiles of one worker share.
struct NameSources {
  FileNamer& files;
  KernelNames& kernel;
  SymbolBudgets& budgets;
  const UserNames& users;
  LineBudget* line_budget = nullptr;  // null: DWARF is not read
  PodDirectory* pods = nullptr;       // null: pods have no names
};

struct NamedProfile {
  PprofProfile profile;
  NameShares shares;
  // Of each process of the snapshot, with the labels of its first thread.
  std::vector<std::uint32_t> label_sets{};
  // The files with a build id, by file_identity(), sorted.
  std::vector<std::string> files{};
};

// `host` is in the title of the profile. The header's period is that of period_of() in nanoseconds
// or in the event's unit. Of blocks, the second value is their time, the period is 1 ns, and each
// sample has the labels of formats/profile/block_names.h.
[[nodiscard]] NamedProfile build_named_profile(const SessionSnapshot& snapshot,
                                               const NameSources& names, const std::string& host);

}  // namespace profd
