// The account of a session of blocks in session.json, from its ledger. Used on a worker.

#pragma once

#include <vector>

#include "daemon/samples/snapshot.h"
#include "formats/api/session_summary.h"

namespace profd {

[[nodiscard]] BlockSummary summary_of(const BlockLedger& blocks);

// In microseconds. What was taken is the time that the sampler passed on or had no room for, and
// what the kernel counted as lost. A tick that was lost counts as its period, which is only of
// `wall`; blocks of which a record was malformed, or missing, have no time that is known.
[[nodiscard]] SessionLedger ledger_of_blocks(const SessionSnapshot& snapshot,
                                             const std::vector<ProfileSummary>& profiles);

}  // namespace profd
