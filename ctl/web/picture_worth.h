// What a picture is worth: how many samples it has, and what is missing in them.
//
//     {"parts":["5,940 samples","lost 0.1 %: 6 ring_full","incomplete stacks 1.2 %: ...", ...]}
//
// Lost samples and incomplete stacks are there where the source says so: the history and sessions
// by their ledger, and recordings by what stands in them, which is of the whole recording. For the
// former, there is the CPU use of the daemon too, on average since its start. The history does not
// say how many samples of a target, or of an unprivileged user, were lost; then that part is
// absent.

#pragma once

#include <optional>
#include <string>

#include "ctl/sources/source.h"
#include "formats/api/status_info.h"

namespace profd {

// `has_lost`: the ledger of the source, if it has one, counts the samples that were lost.
[[nodiscard]] std::string picture_worth_json(const Source& source, bool has_lost,
                                             const std::optional<StatusInfo>& status);

}  // namespace profd
