// What profctl doctor makes of the daemon's own figures: what is lost, and what to do about each
// reason.

#pragma once

#include "formats/api/check_report.h"
#include "formats/api/status_info.h"

namespace profd {

// Of all samples since the daemon's start. To be mended from one in a thousand on: below that no
// profile looks different for it.
[[nodiscard]] CheckPoint check_losses(const StatusInfo::Ledger& ledger);

// Whether continuous mode is on, and keeps all of its windows.
[[nodiscard]] CheckPoint check_history(const StatusInfo::Continuous& history);

}  // namespace profd
