#include "collectors/unwinding/step.h"

#include <cstring>

namespace profd {
namespace {

// What a step reads: see bpf/rule_step.h.
struct Stepper {
  UnwindFrame& frame;
  const StackWindow& stack;
  std::uint64_t unread = 0;  // the last address that could not be read
};

UnwindFrame* profd_frame_of(const Stepper* stepper) { return &stepper->frame; }

bool profd_was_interrupted(const UnwindFrame* frame) { return frame->was_interrupted(); }

std::uint64_t profd_frame_floor(const UnwindFrame* frame) {
  return frame->sp - (frame->was_interrupted() ? PROFD_RED_ZONE_BYTES : 0);
}

bool profd_read_word(Stepper* stepper, std::uint64_t address, __u64* word) {
  const auto found = stepper->stack.read(address);
  if (found) *word = *found;
  if (!found) stepper->unread = address;
  return found.has_value();
}

std::uint64_t profd_interrupted_register(const Stepper* stepper, std::uint32_t number) {
  return stepper->frame.registers[number];
}

// To the frame that the signal interrupted, which may be on another stack.
std::uint32_t profd_step_by_signal(Stepper* stepper, std::int32_t offset) {
  constexpr std::array<std::uint8_t, PROFD_DWARF_REGISTERS> kOrder = PROFD_SIGCONTEXT_REGISTERS;
  UnwindFrame& frame = stepper->frame;
  if (frame.signal_frames >= PROFD_MAX_SIGNAL_FRAMES) return PROFD_END_CFA_NOT_ABOVE;
  std::array<__u64, PROFD_SIGCONTEXT_WORDS> words{};
  std::uint64_t address = frame.sp + static_cast<std::uint64_t>(std::int64_t{offset});
  for (__u64& word : words) {
    if (!profd_read_word(stepper, address, &word)) return PROFD_END_STACK_UNREADABLE;
    address += sizeof word;
  }
  UnwindFrame caller{.ip = words[PROFD_SIGCONTEXT_IP],
                     .signal_frames = frame.signal_frames + 1,
                     .how = PROFD_FRAME_SIGNAL};
  for (std::size_t i = 0; i < kOrder.size(); ++i) caller.registers[kOrder[i]] = words[i];
  caller.sp = caller.registers[PROFD_DWARF_RSP];
  caller.bp = caller.registers[PROFD_DWARF_RBP];
  caller.bx = caller.registers[PROFD_DWARF_RBX];
  frame = caller;
  return PROFD_NOT_ENDED;
}

#define PROFD_FRAME UnwindFrame
#define PROFD_STEPPER Stepper
#include "bpf/rule_step.h"
#undef PROFD_FRAME
#undef PROFD_STEPPER

}  // namespace

std::optional<std::uint64_t> StackWindow::read(std::uint64_t address) const {
  const std::uint64_t offset = address - start_;
  if (words_.empty() || offset > words_.size_bytes() - sizeof(std::uint64_t)) return std::nullopt;
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const char*>(words_.data()) + offset, sizeof word);
  return word;
}

// A copy below the maximal size ends where the stack could not be read.
profd_user_end StackWindow::end_at(std::uint64_t address) const {
  const bool above = static_cast<std::int64_t>(address - start_) >= 0;
  return above && words_.size_bytes() == PROFD_DEFERRED_WINDOW_BYTES ? PROFD_END_WINDOW
                                                                     : PROFD_END_STACK_UNREADABLE;
}

bool UnwindFrame::was_interrupted() const {
  return how == PROFD_FRAME_INTERRUPTED || how == PROFD_FRAME_SYSCALL || how == PROFD_FRAME_SIGNAL;
}

std::uint64_t UnwindFrame::code_address() const {
  return how == PROFD_FRAME_INTERRUPTED || how == PROFD_FRAME_SIGNAL ? ip : ip - 1;
}

profd_user_end step_by_rule(UnwindFrame& frame, const profd_rule& rule, const StackWindow& stack) {
  Stepper stepper{.frame = frame, .stack = stack};
  const auto end = static_cast<profd_user_end>(profd_step_by_rule(&stepper, &rule));
  return end == PROFD_END_STACK_UNREADABLE ? stack.end_at(stepper.unread) : end;
}

profd_user_end step_by_frame_pointer(UnwindFrame& frame, const StackWindow& stack,
                                     profd_user_end without) {
  if ((frame.lost & PROFD_LOST_BP) != 0) return PROFD_END_REGISTER_LOST;
  if (frame.bp == 0 && frame.how == PROFD_FRAME_POINTER) return PROFD_END_FP_ZERO;
  if (frame.bp % 8 != 0 || frame.bp < frame.sp) return without;
  const auto bp = stack.read(frame.bp);
  const auto ip = stack.read(frame.bp + 8);
  if (!bp || !ip) return stack.end_at(frame.bp);
  frame = UnwindFrame{.ip = *ip,
                      .sp = frame.bp + 16,
                      .bp = *bp,
                      .lost = PROFD_LOST_BX,
                      .signal_frames = frame.signal_frames,
                      .how = PROFD_FRAME_POINTER};
  return kStepped;
}

}  // namespace profd
