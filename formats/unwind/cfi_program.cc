#include "formats/unwind/cfi_program.h"

namespace profd {
namespace {

constexpr std::size_t kMaxRemembered = 64;

// DW_CFA_*: the first three have an operand in the low six bits of the opcode.
enum : std::uint8_t {
  kAdvanceLoc = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
  kPrimaryMask = 0xc0,
  kOperandMask = 0x3f,

  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffsetExtended = 0x2f,
};

}  // namespace

CfiProgram::CfiProgram(const CfiCie& cie, std::string_view instructions,
                       std::uint64_t instructions_vaddr)
    : cie_(cie), instructions_vaddr_(instructions_vaddr), cursor_(instructions) {}

CfiProgram::CfiProgram(const CfiCie& cie, const CfiFde& fde, const CfiState& initial)
    : CfiProgram(cie, fde.instructions, fde.instructions_vaddr) {
  initial_ = &initial;
  state_ = initial;
  address_ = next_address_ = fde.start;
}

std::optional<CfiState> CfiProgram::initial_state(const CfiCie& cie) {
  CfiProgram program(cie, cie.instructions, cie.instructions_vaddr);
  if (program.advance() || program.loss()) return std::nullopt;
  return program.state();
}

bool CfiProgram::advance() {
  address_ = next_address_;
  while (cursor_.ok() && cursor_.remaining() > 0 && !loss_) {
    step();
    if (!cursor_.ok()) fail_with(CfiLoss::kMalformed);
    if (!loss_ && next_address_ != address_) return true;
  }
  return false;
}

void CfiProgram::step() {
  const auto opcode = cursor_.read<std::uint8_t>();
  const std::uint8_t operand = opcode & kOperandMask;
  switch (opcode & kPrimaryMask) {
    case kAdvanceLoc:
      return move_by(operand);
    case kOffset:
      return save(operand, SavedAs::kOffset, factored(read_uleb()));
    case kRestore:
      return restore(operand);
    default:
      return step_extended(opcode);
  }
}

void CfiProgram::step_extended(std::uint8_t opcode) {
  CfaDefinition& cfa = state_.cfa;
  switch (opcode) {
    case kNop:
      return;
    case kSetLoc:
      return move_to(dwarf::read_pointer(cursor_, cie_.pointer_encoding, instructions_vaddr_));
    case kAdvanceLoc1:
      return move_by(cursor_.read<std::uint8_t>());
    case kAdvanceLoc2:
      return move_by(cursor_.read<std::uint16_t>());
    case kAdvanceLoc4:
      return move_by(cursor_.read<std::uint32_t>());
    case kRememberState:
      return remember();
    case kRestoreState:
      return recall();
    case kGnuArgsSize:  // for landing pads only
      (void)read_uleb();
      return;
    case kDefCfaRegister:  // after an expression, the offset from before it is used, as in libgcc
      cfa.register_number = read_uleb();
      cfa.is_expression = false;
      return;
    case kDefCfaOffset:
      cfa.offset = static_cast<std::int64_t>(read_uleb());
      return;
    case kDefCfaOffsetSf:
      cfa.offset = read_factored();
      return;
    case kDefCfaExpression:
      cfa.is_known = cfa.is_expression = true;
      cfa.expression = cursor_.read_bytes(read_uleb());
      return;
    default:
      return step_register(opcode, read_uleb());
  }
}

// The operations whose first operand is the number of a register.
void CfiProgram::step_register(std::uint8_t opcode, std::uint64_t number) {
  switch (opcode) {
    case kDefCfa:
      state_.cfa = {true, false, number, static_cast<std::int64_t>(read_uleb()), {}};
      return;
    case kDefCfaSf:
      state_.cfa = {true, false, number, read_factored(), {}};
      return;
    case kExpression:
      return save_expression(number, SavedAs::kExpression);
    case kValExpression:
      return save_expression(number, SavedAs::kValExpression);
    case kOffsetExtended:
      return save(number, SavedAs::kOffset, factored(read_uleb()));
    case kOffsetExtendedSf:
      return save(number, SavedAs::kOffset, read_factored());
    case kGnuNegativeOffsetExtended:
      return save(number, SavedAs::kOffset, factored(~read_uleb() + 1));
    case kValOffset:
      return save(number, SavedAs::kValOffset, factored(read_uleb()));
    case kValOffsetSf:
      return save(number, SavedAs::kValOffset, read_factored());
    case kRestoreExtended:
      return restore(number);
    case kUndefined:
      return save(number, SavedAs::kUndefined, 0);
    case kSameValue:
      return save(number, SavedAs::kSameValue, 0);
    case kRegister:
      return save(number, SavedAs::kRegister, static_cast<std::int64_t>(read_uleb()));
    default:
      fail_with(CfiLoss::kMalformed);
  }
}

void CfiProgram::move_by(std::uint64_t delta) {
  move_to(next_address_ + delta * cie_.code_alignment);
}

// A CIE must not set an address, and the addresses of an FDE must not decrease.
void CfiProgram::move_to(std::optional<std::uint64_t> address) {
  if (initial_ == nullptr || !address || *address < next_address_) {
    return fail_with(CfiLoss::kMalformed);
  }
  next_address_ = *address;
}

void CfiProgram::save(std::uint64_t number, SavedAs as, std::int64_t value) {
  if (SavedRegister* saved = find(state_, number)) *saved = {as, value, {}};
}

void CfiProgram::save_expression(std::uint64_t number, SavedAs as) {
  const std::string_view expression = cursor_.read_bytes(read_uleb());
  if (SavedRegister* saved = find(state_, number)) *saved = {as, 0, expression};
}

void CfiProgram::restore(std::uint64_t number) {
  if (initial_ == nullptr) return fail_with(CfiLoss::kMalformed);
  CfiState initial = *initial_;
  if (SavedRegister* saved = find(state_, number)) *saved = *find(initial, number);
}

void CfiProgram::remember() {
  if (remembered_.size() >= kMaxRemembered) return fail_with(CfiLoss::kOverLimit);
  remembered_.push_back(state_);
}

void CfiProgram::recall() {
  if (remembered_.empty()) return fail_with(CfiLoss::kMalformed);
  state_ = remembered_.back();
  remembered_.pop_back();
}

// In unsigned arithmetic, where overflow is defined.
std::int64_t CfiProgram::factored(std::uint64_t value) const {
  return static_cast<std::int64_t>(value * static_cast<std::uint64_t>(cie_.data_alignment));
}

std::int64_t CfiProgram::read_factored() {
  return factored(static_cast<std::uint64_t>(dwarf::read_sleb(cursor_)));
}

SavedRegister* CfiProgram::find(CfiState& state, std::uint64_t number) {
  switch (number) {
    case PROFD_DWARF_RBX:
      return &state.rbx;
    case PROFD_DWARF_RBP:
      return &state.rbp;
    case PROFD_DWARF_RSP:
      return &state.rsp;
    case kReturnAddressColumn:
      return &state.return_address;
    default:
      return nullptr;
  }
}

}  // namespace profd
