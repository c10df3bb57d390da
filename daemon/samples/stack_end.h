// Why a user stack ended: it reached its root, or unwinding stopped for a reason with a name, which
// docs/api.md explains.

#pragma once

#include <string_view>

#include "daemon/samples/stack_table.h"

namespace profd {

// Whether the unwind rows mark the last frame as the outermost one: the entry of the program or
// thread.
[[nodiscard]] bool reached_root(unsigned user_end);

// The reason's name for a stack that did not reach its root. `user_end` is a profd_user_end.
[[nodiscard]] std::string_view incomplete_reason(StackClass stack_class, unsigned user_end);

}  // namespace profd
