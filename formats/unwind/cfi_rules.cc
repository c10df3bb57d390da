// Converts a state of call frame information to an unwind rule.

#include <array>
#include <initializer_list>

#include "formats/elf/dwarf_cursor.h"
#include "formats/unwind/cfi_program.h"

namespace profd {
namespace {

// DW_OP_*
enum : std::uint8_t {
  kDeref = 0x06,
  kAnd = 0x1a,
  kMul = 0x1e,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kGe = 0x2a,
  kLit0 = 0x30,
  kLit3 = kLit0 + 3,
  kLit8 = kLit0 + 8,
  kLit15 = kLit0 + 15,
  kBreg0 = 0x70,
  kBregRip = kBreg0 + 16,
};

// Offsets in the kernel's struct sigcontext (PROFD_SIGCONTEXT_REGISTERS).
constexpr std::int64_t kSigcontextRbp = 80;
constexpr std::int64_t kSigcontextRbx = 88;
constexpr std::int64_t kSigcontextRsp = 120;
constexpr std::int64_t kSigcontextIp = std::int64_t{8} * PROFD_SIGCONTEXT_IP;

using Operands = std::array<std::int64_t, 5>;

// The operands of an expression that has the operations of `shape`, in their order; none for any
// other expression. In a shape, kBreg0 stands for any of DW_OP_breg0 to 15 (operands: the register
// and a constant), kLit0 for any of DW_OP_lit0 to 15. A kPlusUconst at the end may be absent (0).
std::optional<Operands> operands_of(std::string_view expression,
                                    std::initializer_list<std::uint8_t> shape) {
  Operands operands{};
  std::size_t count = 0;
  Cursor cursor(expression);
  for (const std::uint8_t wanted : shape) {
    if (wanted == kPlusUconst && cursor.remaining() == 0) break;
    const auto opcode = cursor.read<std::uint8_t>();
    const bool is_any = wanted == kBreg0 || wanted == kLit0;
    if ((is_any ? opcode & 0xf0 : opcode) != wanted) return std::nullopt;
    if (is_any) operands.at(count++) = opcode - wanted;
    if (wanted == kBreg0 || wanted == kBregRip) operands.at(count++) = dwarf::read_sleb(cursor);
    if (wanted == kPlusUconst) {
      operands.at(count++) = static_cast<std::int64_t>(dwarf::read_uleb(cursor));
    }
  }
  if (!cursor.ok() || cursor.remaining() != 0) return std::nullopt;
  return operands;
}

struct RegisterPlus {
  std::int64_t number = 0;
  std::int64_t offset = 0;

  friend bool operator==(const RegisterPlus&, const RegisterPlus&) = default;
};

// An expression that is only a register plus a constant.
std::optional<RegisterPlus> register_plus(std::string_view expression) {
  const auto found = operands_of(expression, {kBreg0});
  if (!found) return std::nullopt;
  return RegisterPlus{found->front(), found->at(1)};
}

std::optional<std::int32_t> narrow(std::int64_t value) {
  const auto narrowed = static_cast<std::int32_t>(value);
  if (narrowed != value) return std::nullopt;
  return narrowed;
}

std::optional<profd_rule> cfa_rule(profd_rule_kind kind, std::int64_t number, std::int64_t offset,
                                   std::int64_t add) {
  const auto narrow_offset = narrow(offset);
  const auto narrow_add = narrow(add);
  const bool is_register = number >= 0 && number < PROFD_DWARF_REGISTERS;
  if (!is_register || !narrow_offset || !narrow_add) return std::nullopt;
  profd_rule rule{};
  rule.kind = kind;
  rule.cfa_register = static_cast<std::uint8_t>(number);
  rule.cfa_offset = *narrow_offset;
  rule.cfa_add = *narrow_add;
  return rule;
}

// bregN X; deref; plus_uconst K: realigned stacks, and hand-written code.
std::optional<profd_rule> deref_rule(std::string_view expression) {
  const auto found = operands_of(expression, {kBreg0, kDeref, kPlusUconst});
  if (!found) return std::nullopt;
  return cfa_rule(PROFD_RULE_DEREF, found->at(0), found->at(1), found->at(2));
}

// bregN X; bregI 0; lit8; mul; plus; deref; plus_uconst K: OpenSSL's Montgomery multiplication.
std::optional<profd_rule> indexed_rule(std::string_view expression) {
  const auto found =
      operands_of(expression, {kBreg0, kBreg0, kLit8, kMul, kPlus, kDeref, kPlusUconst});
  if (!found) return std::nullopt;
  const auto [base, offset, index, index_offset, add] = *found;
  auto rule = cfa_rule(PROFD_RULE_DEREF, base, offset, add);
  if (!rule || index_offset != 0) return std::nullopt;
  rule->cfa_index = static_cast<std::uint8_t>(index + 1);
  return rule;
}

// breg7 8; breg16 0; lit15; and; litT; ge; lit3; shl; plus: the linkers' PLT entries, which push a
// word after their first T bytes.
std::optional<profd_rule> plt_rule(std::string_view expression) {
  const auto found =
      operands_of(expression, {kBreg0, kBregRip, kLit15, kAnd, kLit0, kGe, kLit3, kShl, kPlus});
  if (!found) return std::nullopt;
  const bool is_of_plt = *found == Operands{PROFD_DWARF_RSP, 8, 0, found->at(3)};
  return is_of_plt ? cfa_rule(PROFD_RULE_PLT, PROFD_DWARF_RSP, 8, found->at(3)) : std::nullopt;
}

std::optional<profd_rule> rule_of_cfa(const CfaDefinition& cfa) {
  if (!cfa.is_known) return std::nullopt;
  if (!cfa.is_expression) {
    const auto number = static_cast<std::int64_t>(cfa.register_number);
    return cfa_rule(PROFD_RULE_REGISTER, number, cfa.offset, 0);
  }
  if (const auto plain = register_plus(cfa.expression)) {
    return cfa_rule(PROFD_RULE_REGISTER, plain->number, plain->offset, 0);
  }
  for (const auto& shape : {deref_rule, indexed_rule, plt_rule}) {
    if (const auto rule = shape(cfa.expression)) return rule;
  }
  return std::nullopt;
}

struct Saved {
  profd_saved as = PROFD_SAVED_LOST;
  std::int32_t offset = 0;
};

Saved saved_at(profd_saved as, std::int64_t offset) {
  const auto narrowed = narrow(offset);
  return narrowed ? Saved{as, *narrowed} : Saved{};
}

// A location relative to the CFA's register is also one relative to the CFA.
Saved saved_by_expression(std::string_view expression, const profd_rule& cfa) {
  const auto place = register_plus(expression);
  if (!place || place->number != cfa.cfa_register) return {};
  if (cfa.kind == PROFD_RULE_DEREF) return saved_at(PROFD_SAVED_AT_REGISTER, place->offset);
  if (cfa.kind != PROFD_RULE_REGISTER) return {};
  std::int64_t from_cfa = 0;
  const bool fits = !__builtin_sub_overflow(place->offset, cfa.cfa_offset, &from_cfa);
  return fits ? saved_at(PROFD_SAVED_AT_CFA, from_cfa) : Saved{};
}

Saved rule_of_saved(const SavedRegister& saved, std::int64_t own_number, const profd_rule& cfa) {
  switch (saved.as) {
    case SavedAs::kUnspecified:
    case SavedAs::kSameValue:
      return {PROFD_SAVED_NOT, 0};
    case SavedAs::kOffset:
      return saved_at(PROFD_SAVED_AT_CFA, saved.value);
    case SavedAs::kRegister:
      if (saved.value == own_number) return {PROFD_SAVED_NOT, 0};
      if (saved.value < 0 || saved.value >= PROFD_DWARF_REGISTERS) return {};
      return saved_at(PROFD_SAVED_REGISTER, saved.value);
    case SavedAs::kExpression:
      return saved_by_expression(saved.expression, cfa);
    case SavedAs::kUndefined:
    case SavedAs::kValOffset:
    case SavedAs::kValExpression:
      return {};
  }
  return {};
}

RuleWithLoss unknown(CfiLoss loss) { return {profd_rule{}, loss}; }

bool is_at(const SavedRegister& saved, std::int64_t rsp_offset) {
  return saved.as == SavedAs::kExpression &&
         register_plus(saved.expression) == RegisterPlus{PROFD_DWARF_RSP, rsp_offset};
}

// glibc's restorer describes the location of each register in the struct sigcontext above rsp.
// Those of rbp, rbx and the return address are checked.
RuleWithLoss signal_rule(const CfiState& state) {
  const auto cfa = state.cfa.is_expression ? deref_rule(state.cfa.expression) : std::nullopt;
  if (!cfa || cfa->cfa_register != PROFD_DWARF_RSP || cfa->cfa_add != 0) {
    return unknown(CfiLoss::kUnsupportedCfa);
  }
  const std::int64_t at = cfa->cfa_offset - kSigcontextRsp;
  const bool matches = is_at(state.rbp, at + kSigcontextRbp) &&
                       is_at(state.rbx, at + kSigcontextRbx) &&
                       is_at(state.return_address, at + kSigcontextIp);
  const auto rule = cfa_rule(PROFD_RULE_SIGNAL, PROFD_DWARF_RSP, at, 0);
  if (!matches || !rule) return unknown(CfiLoss::kUnsupportedCfa);
  return {*rule, std::nullopt};
}

// The caller's rsp is the CFA, except in code that switches stacks.
bool is_rsp_the_cfa(const SavedRegister& rsp) {
  return rsp.as == SavedAs::kUnspecified || (rsp.as == SavedAs::kValOffset && rsp.value == 0);
}

}  // namespace

RuleWithLoss rule_of(const CfiState& state, bool is_signal_frame) {
  if (is_signal_frame) return signal_rule(state);
  if (state.return_address.as == SavedAs::kUndefined) {
    profd_rule end{};
    end.kind = PROFD_RULE_END;
    return {end, std::nullopt};
  }
  const auto cfa = rule_of_cfa(state.cfa);
  if (!cfa) return unknown(CfiLoss::kUnsupportedCfa);
  const Saved ra = rule_of_saved(state.return_address, -1, *cfa);
  const bool ra_known = ra.as == PROFD_SAVED_AT_CFA || ra.as == PROFD_SAVED_REGISTER;
  if (!ra_known || !is_rsp_the_cfa(state.rsp)) return unknown(CfiLoss::kUnsupportedRegister);
  const Saved rbp = rule_of_saved(state.rbp, PROFD_DWARF_RBP, *cfa);
  const Saved rbx = rule_of_saved(state.rbx, PROFD_DWARF_RBX, *cfa);
  RuleWithLoss result{*cfa, std::nullopt};
  result.rule.ra_saved = ra.as;
  result.rule.ra_offset = ra.offset;
  result.rule.rbp_saved = rbp.as;
  result.rule.rbp_offset = rbp.offset;
  result.rule.rbx_saved = rbx.as;
  result.rule.rbx_offset = rbx.offset;
  const bool lost = (rbp.as == PROFD_SAVED_LOST && state.rbp.as != SavedAs::kUndefined) ||
                    (rbx.as == PROFD_SAVED_LOST && state.rbx.as != SavedAs::kUndefined);
  if (lost) result.loss = CfiLoss::kUnsupportedRegister;
  return result;
}

}  // namespace profd
