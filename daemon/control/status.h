// Parts of the daemon's status, from the counts of those who keep them.

#pragma once

#include <string_view>
#include <vector>

#include "collectors/interpreters/stats.h"
#include "collectors/jit/stats.h"
#include "collectors/sampling/sampler.h"
#include "collectors/unwinding/stats.h"
#include "daemon/names/naming_stats.h"
#include "daemon/samples/unwind_tally.h"
#include "formats/api/status_info.h"

namespace profd {

// With the version, the pid, and the cost of the daemon and its parsers.
[[nodiscard]] StatusInfo describe_process();

void add_ledger(const SamplerLedger& ledger, StatusInfo& status);

// The objects in which most stacks end early are included with `show_objects` alone, since they may
// be other users' files.
[[nodiscard]] StatusInfo::Unwinding describe_unwinding(const UnwindStats& stats,
                                                       const UnwindTally& tally, bool show_objects);

[[nodiscard]] StatusInfo::Jit describe_jit(const JitStats& stats);

// The files are included with `show_files` alone, since they may be other users'.
[[nodiscard]] StatusInfo::Interpreters describe_interpreters(const InterpreterStats& stats,
                                                             bool show_files);

// All reasons of StatusInfo::Interpreters: of lost, and of refused.
[[nodiscard]] std::vector<std::string_view> interpreter_losses();
[[nodiscard]] std::vector<std::string_view> interpreter_refusals();

[[nodiscard]] StatusInfo::OffCpu describe_off_cpu(const OffCpuStats& stats);

[[nodiscard]] StatusInfo::Names describe_names(const NamingStats& stats);

// All keys of StatusInfo::Names::sources.
[[nodiscard]] std::vector<std::string_view> name_sources();

// All keys of StatusInfo::Names::DebugFiles::found, and all of its reasons.
[[nodiscard]] std::vector<std::string_view> debug_file_places();
[[nodiscard]] std::vector<std::string_view> debug_file_refusals();

// All reasons of StatusInfo::Names::Lines.
[[nodiscard]] std::vector<std::string_view> dwarf_losses();

// All reasons of StatusInfo::Unwinding::incomplete.
[[nodiscard]] std::vector<std::string_view> incomplete_reasons();

}  // namespace profd
