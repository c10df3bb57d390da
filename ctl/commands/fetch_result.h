// Brings a result from the daemon to a directory: the common end of stop, dump and record.

#pragma once

#include <filesystem>

#include "ctl/client/client.h"
#include "ctl/output/console.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"

namespace profd {

// Writes every file of the result and session.json, lets the daemon's copy go once all of it is on
// disk, and prints a line for each file, or session.json when `json`. On an error nothing is left
// in the directory, and the daemon still has the result.
Result<void> fetch_result(Client& client, const ResultInfo& result,
                          const std::filesystem::path& directory, bool json,
                          const Console& console);

}  // namespace profd
