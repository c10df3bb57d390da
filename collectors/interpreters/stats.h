// Counts of interpreted code, for the status: of the kernel side and of user space.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/interpreters/codes.h"
#include "collectors/interpreters/runtimes.h"
#include "collectors/interpreters/weave.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// The names of profd_interpreter_count.
[[nodiscard]] constexpr std::string_view name_of_interpreter_count(std::size_t count) {
  constexpr std::array<std::string_view, PROFD_INTERPRETER_COUNTS> kNames = {
      "stacks",         "stacks_sent",      "no_thread_state",
      "state_mismatch", "unreadable_state", "no_room",
      "frames",         "frame_limit",      "unreadable",
      "not_code",       "disordered",       "codes_sent",
      "rate",           "codes_no_room",    "name_absent",
      "name_cut"};
  return count < kNames.size() ? kNames[count] : "unknown";
}

struct InterpreterStats {
  bool is_supported = true;  // false: the kernel's verifier refused the programs with interpreters
  std::array<std::uint64_t, PROFD_INTERPRETER_COUNTS> kernel{};  // since the start
  WeaveCounts woven{};
  std::uint64_t orphans = 0;        // PendingStacks
  std::uint64_t without_table = 0;  // stacks whose file was met before it was recognised
  CodeStats codes{};
  std::array<std::uint64_t, kRuntimeVerdictCount> verdicts{};  // files
  std::vector<InterpreterFile> files{};
};

}  // namespace profd
