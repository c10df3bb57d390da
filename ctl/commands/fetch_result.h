// Fetches a result from the daemon and writes it to a directory: the last step of stop, dump,
// export and record.

#pragma once

#include <string>

#include "ctl/client/client.h"
#include "ctl/output/console.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"

namespace profd {

// Whether `directory` can be written to, before anything is done for it. Empty: it is not known
// yet, which is no error.
[[nodiscard]] Result<void> check_output(const std::string& directory);

// Writes every file of the result and session.json to `directory` (empty: ./profd-RESULT), deletes
// the copy of the daemon when all of it is on disk, and prints the path of each file, or
// session.json with --json. Returns kExitOk. After an error the directory is as it was before, and
// the daemon still has the result.
Result<int> fetch_result(Client& client, const ResultInfo& result, const std::string& directory,
                         const Console& console);

}  // namespace profd
