// One step of a deferred stack, from a frame to its caller: as in the kernel (bpf/rule_step.h), on
// a copy of the stack.
//
// Pure functions. Stack and rules come from other users: a step leads up the stack or ends the
// walk.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bpf/profd_abi.h"
#include "bpf/unwind_rows.h"

namespace profd {

// A copy of stack memory from an address up.
class StackWindow {
 public:
  StackWindow(std::uint64_t start, std::span<const std::uint64_t> words)
      : start_(start), words_(words) {}
  // None outside the copy.
  [[nodiscard]] std::optional<std::uint64_t> read(std::uint64_t address) const;
  // The reason for a read() that returns none.
  [[nodiscard]] profd_user_end end_at(std::uint64_t address) const;

 private:
  std::uint64_t start_;
  std::span<const std::uint64_t> words_;
};

struct UnwindFrame {
  std::uint64_t ip = 0;
  std::uint64_t sp = 0;
  std::uint64_t bp = 0;
  std::uint64_t bx = 0;
  std::uint32_t lost = 0;  // PROFD_LOST_ bits
  std::uint32_t signal_frames = 0;
  profd_frame_how how = PROFD_FRAME_INTERRUPTED;
  bool callee_was_interrupted = false;  // and a row led from the callee to here
  // Of the last interrupted frame: valid for that frame and its direct caller, as the row does not
  // mention these registers.
  std::array<std::uint64_t, PROFD_DWARF_REGISTERS> registers{};

  // All registers of the frame are known.
  [[nodiscard]] bool was_interrupted() const;
  // The address to look up: for a return address, the one before, which is in the call instruction.
  [[nodiscard]] std::uint64_t code_address() const;
};

// Both replace `frame` by its caller and return kStepped, or leave it and return why the stack
// ends.
inline constexpr auto kStepped = static_cast<profd_user_end>(PROFD_NOT_ENDED);

// PROFD_END_NO_ROW for an unknown rule.
[[nodiscard]] profd_user_end step_by_rule(UnwindFrame& frame, const profd_rule& rule,
                                          const StackWindow& stack);
// Returns `without` if the frame pointer is not usable.
[[nodiscard]] profd_user_end step_by_frame_pointer(UnwindFrame& frame, const StackWindow& stack,
                                                   profd_user_end without);

}  // namespace profd
