// Says that a list has the processes of the caller alone (ctl/client/caller_rights.h).

#pragma once

#include "ctl/output/console.h"

namespace profd {

void say_that_others_are_hidden(const Console& console);

}  // namespace profd
