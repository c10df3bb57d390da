// A jitdump whose unwind data has functions far from each other.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace profd::test {

// The jitdump of a process, with one UNWINDING_INFO record of a whole object: a function in each of
// so many areas of 4 GiB, from the second area on.
[[nodiscard]] std::string dump_of_scattered_rows(pid_t pid, std::size_t areas);

}  // namespace profd::test
