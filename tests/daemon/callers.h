// Callers of tests: root and two unprivileged users.

#pragma once

#include "daemon/service/caller.h"

namespace profd::test {

inline constexpr Caller kRoot{.uid = 0, .gid = 0, .pid = 1, .privileged = true};
inline constexpr Caller kAlice{.uid = 4001, .gid = 4001, .pid = 2, .privileged = false};
inline constexpr Caller kBob{.uid = 4002, .gid = 4002, .pid = 3, .privileged = false};

}  // namespace profd::test
