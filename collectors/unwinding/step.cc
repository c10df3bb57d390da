#include "collectors/unwinding/step.h"

#include <cstring>

namespace profd {
namespace {

constexpr profd_user_end kStepped = PROFD_END_NO_USER_STACK;

std::uint64_t plus(std::uint64_t base, std::int32_t offset) {
  return base + static_cast<std::uint64_t>(std::int64_t{offset});
}

// Whether `a` is below `b`, as the BPF program compares: the difference may wrap.
bool below(std::uint64_t a, std::uint64_t b) { return static_cast<std::int64_t>(a - b) < 0; }

// The lowest address at which the frame may have saved registers.
std::uint64_t floor_of(const UnwindFrame& frame) {
  return frame.sp - (frame.was_interrupted() ? PROFD_RED_ZONE_BYTES : 0);
}

std::optional<std::uint64_t> value_of(const UnwindFrame& frame, std::uint32_t number) {
  switch (number) {
    case PROFD_DWARF_RSP:
      return frame.sp;
    case PROFD_DWARF_RBP:
      return (frame.lost & PROFD_LOST_BP) != 0 ? std::nullopt : std::optional(frame.bp);
    case PROFD_DWARF_RBX:
      return (frame.lost & PROFD_LOST_BX) != 0 ? std::nullopt : std::optional(frame.bx);
    default:
      break;
  }
  if (number >= PROFD_DWARF_REGISTERS) return std::nullopt;
  if (!frame.was_interrupted() && !frame.callee_was_interrupted) return std::nullopt;
  return frame.registers[number];
}

profd_user_end find_cfa(const UnwindFrame& frame, const profd_rule& rule, const StackWindow& stack,
                        std::uint64_t& cfa) {
  if (rule.kind == PROFD_RULE_PLT) {
    const bool pushed = static_cast<std::int64_t>(frame.ip & 15) >= rule.cfa_add;
    cfa = frame.sp + 8 + (pushed ? 8 : 0);
    return kStepped;
  }
  const auto base = value_of(frame, rule.cfa_register);
  if (!base) return PROFD_END_REGISTER_LOST;
  cfa = plus(*base, rule.cfa_offset);
  if (rule.kind == PROFD_RULE_REGISTER) return kStepped;
  if (rule.cfa_index != 0) {
    const auto index = value_of(frame, rule.cfa_index - 1U);
    if (!index) return PROFD_END_REGISTER_LOST;
    cfa += 8 * *index;
  }
  const auto word = stack.read(cfa);
  if (!word) return stack.end_at(cfa);
  cfa = plus(*word, rule.cfa_add);
  return kStepped;
}

profd_user_end find_return_address(const UnwindFrame& frame, const profd_rule& rule,
                                   const StackWindow& stack, std::uint64_t cfa, std::uint64_t& ip) {
  if (rule.ra_saved == PROFD_SAVED_REGISTER) {
    const auto value = value_of(frame, static_cast<std::uint32_t>(rule.ra_offset));
    if (!value) return PROFD_END_REGISTER_LOST;
    ip = *value;
    return kStepped;
  }
  if (rule.ra_saved != PROFD_SAVED_AT_CFA) return PROFD_END_NO_ROW;
  const std::uint64_t slot = plus(cfa, rule.ra_offset);
  if (below(slot, frame.sp)) return PROFD_END_CFA_NOT_ABOVE;
  const auto word = stack.read(slot);
  if (!word) return stack.end_at(slot);
  ip = *word;
  return kStepped;
}

// A callee-saved register: its rule, and its value in the frame.
struct Saved {
  std::uint8_t how;
  std::int32_t offset;
  std::uint32_t lost_bit;
  std::uint64_t value;
};

// The stack slot of the saved register. None if it has none, or one below the frame's floor.
std::optional<std::uint64_t> slot_of(const UnwindFrame& frame, const Saved& saved,
                                     const profd_rule& rule, std::uint64_t cfa) {
  std::optional<std::uint64_t> base;
  if (saved.how == PROFD_SAVED_AT_CFA) base = cfa;
  if (saved.how == PROFD_SAVED_AT_REGISTER) base = value_of(frame, rule.cfa_register);
  if (!base || below(plus(*base, saved.offset), floor_of(frame))) return std::nullopt;
  return plus(*base, saved.offset);
}

// Sets saved.value to the caller's value. Returns lost_bit if that can't be known.
std::uint32_t restore(const UnwindFrame& frame, Saved& saved, const profd_rule& rule,
                      const StackWindow& stack, std::uint64_t cfa) {
  if (saved.how == PROFD_SAVED_NOT) return frame.lost & saved.lost_bit;
  std::optional<std::uint64_t> found;
  if (saved.how == PROFD_SAVED_REGISTER) {
    found = value_of(frame, static_cast<std::uint32_t>(saved.offset));
  } else if (const auto slot = slot_of(frame, saved, rule, cfa)) {
    found = stack.read(*slot);
  }
  if (!found) return saved.lost_bit;
  saved.value = *found;
  return 0;
}

profd_user_end step_by_cfa(UnwindFrame& frame, const profd_rule& rule, const StackWindow& stack) {
  std::uint64_t cfa = 0;
  std::uint64_t ip = 0;
  if (const auto end = find_cfa(frame, rule, stack, cfa); end != kStepped) return end;
  if (!below(frame.sp, cfa)) return PROFD_END_CFA_NOT_ABOVE;
  if (const auto end = find_return_address(frame, rule, stack, cfa, ip); end != kStepped) {
    return end;
  }
  Saved bp{rule.rbp_saved, rule.rbp_offset, PROFD_LOST_BP, frame.bp};
  Saved bx{rule.rbx_saved, rule.rbx_offset, PROFD_LOST_BX, frame.bx};
  const std::uint32_t lost =
      restore(frame, bp, rule, stack, cfa) | restore(frame, bx, rule, stack, cfa);
  frame = UnwindFrame{.ip = ip,
                      .sp = cfa,
                      .bp = bp.value,
                      .bx = bx.value,
                      .lost = lost,
                      .signal_frames = frame.signal_frames,
                      .how = PROFD_FRAME_ROW,
                      .callee_was_interrupted = frame.was_interrupted(),
                      .registers = frame.registers};
  return kStepped;
}

// To the frame that the signal interrupted, which may be on another stack.
profd_user_end step_by_signal(UnwindFrame& frame, const profd_rule& rule,
                              const StackWindow& stack) {
  constexpr std::array<std::uint8_t, PROFD_DWARF_REGISTERS> kOrder = PROFD_SIGCONTEXT_REGISTERS;
  if (frame.signal_frames >= PROFD_MAX_SIGNAL_FRAMES) return PROFD_END_CFA_NOT_ABOVE;
  const std::uint64_t context = plus(frame.sp, rule.cfa_offset);
  std::array<std::uint64_t, PROFD_SIGCONTEXT_WORDS> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = stack.read(context + 8 * i);
    if (!word) return stack.end_at(context + 8 * i);
    words[i] = *word;
  }
  UnwindFrame caller{.ip = words[PROFD_SIGCONTEXT_IP],
                     .signal_frames = frame.signal_frames + 1,
                     .how = PROFD_FRAME_SIGNAL};
  for (std::size_t i = 0; i < kOrder.size(); ++i) caller.registers[kOrder[i]] = words[i];
  caller.sp = caller.registers[PROFD_DWARF_RSP];
  caller.bp = caller.registers[PROFD_DWARF_RBP];
  caller.bx = caller.registers[PROFD_DWARF_RBX];
  frame = caller;
  return kStepped;
}

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
  const bool above = !below(address, start_);
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
  switch (rule.kind) {
    case PROFD_RULE_END:
      return PROFD_END_ENTRY;
    case PROFD_RULE_REGISTER:
    case PROFD_RULE_DEREF:
    case PROFD_RULE_PLT:
      return step_by_cfa(frame, rule, stack);
    case PROFD_RULE_SIGNAL:
      return step_by_signal(frame, rule, stack);
    default:
      return PROFD_END_NO_ROW;
  }
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
