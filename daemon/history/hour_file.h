// Makes the file of an hour out of the files of its windows (window_file.h).
//
// It has no addresses, which no later window needs, and the pid only of processes with many
// samples: the others are added up by name, user and place. What is added up has no owner where the
// owners differ, so that nobody sees another's samples. On the window worker.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "formats/base/result.h"

namespace profd {

// A process with fewer samples in an hour has no pid.
inline constexpr std::uint64_t kMinSamplesOfPid = 10;

// `windows` are the names of files in `windows_dir`, oldest first. A window that can't be read, or
// is of another event than the first, is left out, and its samples, as far as they are known, are
// lost as "unreadable". kNotFound: no window is left.
[[nodiscard]] Result<std::string> make_hour(const std::string& windows_dir,
                                            std::span<const std::string> windows);

}  // namespace profd
