// One step of a stack that is unwound late, from a frame to its caller: the same rules that the
// kernel side follows (bpf/unwind_rows.h), over a copy of the stack.
//
// Pure. The stack and the rules are another user's: a step leads up the stack or ends the walk.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bpf/profd_abi.h"
#include "bpf/unwind_rows.h"

namespace profd {

// A copy of stack memory, from an address up.
class StackWindow {
 public:
  StackWindow(std::uint64_t start, std::span<const std::uint64_t> words)
      : start_(start), words_(words) {}
  // None where the copy doesn't reach.
  [[nodiscard]] std::optional<std::uint64_t> read(std::uint64_t address) const;
  // Why a read gives none.
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
  bool callee_was_interrupted = false;  // a row led here from a frame that was interrupted
  // Of the frame that was interrupted last: this one's own, or its callee's, which leaves it those
  // of which its row says nothing.
  std::array<std::uint64_t, PROFD_DWARF_REGISTERS> registers{};

  // All registers are the frame's own.
  [[nodiscard]] bool was_interrupted() const;
  // Where the frame's code is looked up: a return address lies behind its call.
  [[nodiscard]] std::uint64_t code_address() const;
};

// Both make `frame` its caller and return PROFD_END_NO_USER_STACK (0), or say why the stack ends
// and leave it.

// PROFD_END_NO_ROW for a rule that says nothing.
[[nodiscard]] profd_user_end step_by_rule(UnwindFrame& frame, const profd_rule& rule,
                                          const StackWindow& stack);
// `without` is the end where the frame pointer leads nowhere.
[[nodiscard]] profd_user_end step_by_frame_pointer(UnwindFrame& frame, const StackWindow& stack,
                                                   profd_user_end without);

}  // namespace profd
