// Says that a list has the processes of the caller alone.

#pragma once

#include "ctl/output/console.h"

namespace profd {

// Whether profd shows this user its own processes alone: it is neither root nor in the group profd.
// As the user database says it; the daemon decides.
[[nodiscard]] bool sees_own_processes_alone();

void say_that_others_are_hidden(const Console& console);

}  // namespace profd
