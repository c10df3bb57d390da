// The files that the endpoints of a configuration name, as they are now.
//
// A running `profctl ship` reads them for each request or connection, and its windows wait in the
// history while one is missing. So this is no part of reading a configuration, but of checking one.

#pragma once

#include <vector>

#include "ctl/ship/ship_config.h"
#include "formats/base/result.h"

namespace profd {

// What can't be opened or is no regular file, and secrets that can't be sent. kInvalidArgument,
// "FILE:LINE:COLUMN: KEY: what", in the order of `files`. No error has anything of the contents.
[[nodiscard]] std::vector<Error> errors_of_files(const std::vector<EndpointFile>& files);

}  // namespace profd
