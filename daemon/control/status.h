// The daemon's own account of itself: what it is, what it costs, what became of all samples.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "collectors/jit/stats.h"
#include "collectors/sampling/sampler.h"
#include "collectors/unwinding/stats.h"
#include "daemon/samples/unwind_tally.h"
#include "formats/api/status_info.h"

namespace profd {

struct DaemonFacts {
  std::chrono::steady_clock::duration uptime{};
  std::size_t running_sessions = 0;
  std::uint64_t results_bytes = 0;
  std::uint64_t worker_parser_restarts = 0;
  SamplerLedger ledger;
  UnwindStats unwinding;
  JitStats jit{};
  StatusInfo::Xray xray;
  StatusInfo::Continuous continuous;
};

// Which objects stacks broke off in is not for everyone: they may be other users' files.
[[nodiscard]] StatusInfo describe_daemon(const DaemonFacts& facts, const UnwindTally& tally,
                                         bool show_objects);

}  // namespace profd
