// What a recording says about the samples that it does not have, and about stacks that end too
// early: by session.json, or by the same text in a profile of profd.

#pragma once

#include <optional>
#include <string_view>

#include "ctl/views/samples.h"
#include "formats/api/session_summary.h"

namespace profd {

[[nodiscard]] SampleLosses losses_of(const SessionSummary& summary);

// `protobuf` is unpacked. None: it has no such text, as the profiles of other programs, or one that
// is malformed or larger than 4 MiB.
[[nodiscard]] std::optional<SampleLosses> find_losses(std::string_view protobuf);

}  // namespace profd
