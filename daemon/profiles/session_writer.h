// Writes a session's samples as files: one profile for each process image, and the images beside
// them. Used on the worker. Reads /proc/kallsyms.

#pragma once

#include "collectors/parser/parser.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

// Adds all files to `result` without committing it, and returns the summary that becomes
// session.json.
[[nodiscard]] Result<SessionSummary> write_session(const SessionSnapshot& snapshot, Parser& parser,
                                                   ResultWriter& result);

}  // namespace profd
