// What the name of a gperftools profile says of its process. profd names the files of a directory
// COMM.PID.prof; a second program or process with that pid has COMM.PID.2.prof, and recordings of
// XRay end in .xray.prof and .xray-calls.prof (daemon/profiles/profile_files.cc).

#pragma once

#include <string_view>

#include "ctl/sources/gperftools_samples.h"

namespace profd {

// `file_name` has no directory. A name of another form has no pid, and its command is the name
// without the extension. Characters of the command that are unusual in file names are "_" there.
[[nodiscard]] ProfileOwner owner_of_profile_name(std::string_view file_name);

}  // namespace profd
