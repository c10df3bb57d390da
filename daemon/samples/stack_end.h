// How a user stack ended: at its root, or for a reason that has a name. docs/api.md explains them.

#pragma once

#include <string_view>

#include "daemon/samples/stack_table.h"

namespace profd {

// The unwind rows say that nothing called the last frame: it is the program's or the thread's
// entry.
[[nodiscard]] bool reached_root(unsigned user_end);

// Why a stack that did not reach its root ends where it does. `user_end` is a profd_user_end.
[[nodiscard]] std::string_view incomplete_reason(StackClass stack_class, unsigned user_end);

}  // namespace profd
