// Jitdumps whose unwind data is that of a whole object, as LLVM's ORC writes it.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace profd::test {

// An UNWINDING_INFO record with functions of 32 bytes at these addresses.
[[nodiscard]] std::string record_of_rows(std::span<const std::uint64_t> addresses);

// The jitdump of a process, with one UNWINDING_INFO record: a function in each of so many areas of
// 4 GiB, from the second area on.
[[nodiscard]] std::string dump_of_scattered_rows(pid_t pid, std::size_t areas);

}  // namespace profd::test
