// A session's samples as files: one profile a process image, the images beside them, and the
// summary that becomes session.json. Runs on the worker; reads /proc/kallsyms.

#pragma once

#include "collectors/parser/parser.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

// Adds all files to `result`, without committing it. What the ledger calls written is counted in
// the files as they are on the disk.
[[nodiscard]] Result<SessionSummary> write_session(const SessionSnapshot& snapshot, Parser& parser,
                                                   ResultWriter& result);

}  // namespace profd
