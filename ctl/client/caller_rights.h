// What profd shows the user that runs profctl, as the user database says it. The daemon decides.

#pragma once

#include "formats/api/start_request.h"

namespace profd {

// Whether profd shows this user its own processes alone: it is neither root nor in the group profd.
[[nodiscard]] bool sees_own_processes_alone();

// Whether answers about the history of `target` say how many samples were lost. Nobody knows whose
// samples those were, so with a target, and for a user as above, they have none instead of a count.
[[nodiscard]] bool knows_lost_samples(const TargetRequest& target);

}  // namespace profd
