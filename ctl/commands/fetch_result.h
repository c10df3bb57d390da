// Fetches a result from the daemon and writes it to a directory or file: the last step of stop,
// dump, export and record.

#pragma once

#include <string>

#include "ctl/client/client.h"
#include "ctl/options/destination.h"
#include "ctl/output/console.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"

namespace profd {

// Makes an empty path that of the directory ./profd-ID.
void use_default_directory(const std::string& id, Destination& destination);

// Whether `destination` can be written to, before anything is done for it. An empty path is not
// known yet, which is no error.
[[nodiscard]] Result<void> check_output(const Destination& destination);

// Writes every file of the result and session.json to a directory (an empty path: ./profd-RESULT),
// its named profile to a file, or the parts of it to files of a directory (Destination::by).
// Deletes the copy of the daemon when all of it is on disk, and prints the paths of files as
// `written` says, or session.json with --json; nothing for standard output. Returns kExitOk. After
// an error a directory is as it was before, and the daemon still has the result.
Result<int> fetch_result(Client& client, const ResultInfo& result, const Destination& destination,
                         const WrittenList& written, const Console& console);

}  // namespace profd
