// What a picture is worth: how many samples it has, and what is missing in them.
//
//     {"parts":["5,940 samples","lost 0.1 %: 6 ring_full","incomplete stacks 1.2 %: ...", ...]}
//
// Lost samples and incomplete stacks are there where the source says so, and with them the CPU use
// of the daemon, on average since its start.

#pragma once

#include <optional>
#include <string>

#include "ctl/sources/source.h"
#include "formats/api/status_info.h"

namespace profd {

[[nodiscard]] std::string picture_worth_json(const Source& source,
                                             const std::optional<StatusInfo>& status);

}  // namespace profd
