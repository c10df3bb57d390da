// The windows of the history in which a target used the CPU.

#pragma once

#include <cstddef>

#include "ctl/client/client.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

struct TargetHistory {
  // The newest windows with samples of the target, oldest first: at most as many as the limit of
  // the request. `left_out` counts older windows, of which not all need have the target.
  History history;
  std::size_t lacking = 0;  // windows that were read and have no sample of the target
  TimeRange range;          // that was read
};

// The limit counts windows of the target: asks the daemon for older windows until there are as
// many, until the range has no more, or 20 times. Without a target all windows count, and it asks
// once. A target that is in no window is no error.
[[nodiscard]] Result<TargetHistory> read_target_history(Client& client, HistoryRequest request);

}  // namespace profd
