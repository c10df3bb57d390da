// Runs the call frame instructions of a CIE and an FDE (DWARF 5, 6.4.2) and returns the state at
// each address at which it changes. The state has what a rule can express: the CFA, and where rbx,
// rbp, rsp and the return address of the caller are.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/base/cursor.h"
#include "formats/elf/dwarf_cursor.h"
#include "formats/unwind/cfi_entries.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct CfaDefinition {
  bool is_known = false;
  bool is_expression = false;
  std::uint64_t register_number = 0;
  std::int64_t offset = 0;
  std::string_view expression;
};

enum class SavedAs : std::uint8_t {
  kUnspecified,
  kUndefined,
  kSameValue,
  kOffset,     // at CFA + value
  kValOffset,  // is CFA + value
  kRegister,   // in the register with number `value`
  kExpression,
  kValExpression,
};

struct SavedRegister {
  SavedAs as = SavedAs::kUnspecified;
  std::int64_t value = 0;
  std::string_view expression;
};

struct CfiState {
  CfaDefinition cfa;
  SavedRegister rbx;
  SavedRegister rbp;
  SavedRegister rsp;
  SavedRegister return_address;
};

struct RuleWithLoss {
  profd_rule rule{};
  // Why the rule is unknown, or can't express where rbp or rbx is.
  std::optional<CfiLoss> loss;
};

// The unwind rule that expresses the state; unknown if no rule does. DWARF expressions are not
// evaluated: the few forms that compilers, linkers and hand-written code use are recognized
// (cfi_rules.cc).
[[nodiscard]] RuleWithLoss rule_of(const CfiState& state, bool is_signal_frame);

class CfiProgram {
 public:
  // The initial state of all functions of a CIE; none if its instructions are malformed.
  [[nodiscard]] static std::optional<CfiState> initial_state(const CfiCie& cie);

  // Borrows all three.
  CfiProgram(const CfiCie& cie, const CfiFde& fde, const CfiState& initial);

  // Runs until the address changes. False: the state is valid up to the function's end, or loss()
  // is the reason why there is no state from address() on.
  [[nodiscard]] bool advance();
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] const CfiState& state() const { return state_; }
  [[nodiscard]] std::optional<CfiLoss> loss() const { return loss_; }

 private:
  CfiProgram(const CfiCie& cie, std::string_view instructions, std::uint64_t instructions_vaddr);

  void step();
  void step_extended(std::uint8_t opcode);
  void step_register(std::uint8_t opcode, std::uint64_t number);
  void move_by(std::uint64_t delta);
  void move_to(std::optional<std::uint64_t> address);
  void save(std::uint64_t number, SavedAs as, std::int64_t value);
  void save_expression(std::uint64_t number, SavedAs as);
  void restore(std::uint64_t number);
  void remember();
  void recall();
  [[nodiscard]] std::int64_t factored(std::uint64_t value) const;
  void fail_with(CfiLoss loss) { loss_ = loss; }
  [[nodiscard]] std::uint64_t read_uleb() { return dwarf::read_uleb(cursor_); }
  [[nodiscard]] std::int64_t read_factored();
  [[nodiscard]] static SavedRegister* find(CfiState& state, std::uint64_t number);

  const CfiCie& cie_;
  const CfiState* initial_ = nullptr;
  std::uint64_t instructions_vaddr_;
  Cursor cursor_;
  std::uint64_t address_ = 0;
  std::uint64_t next_address_ = 0;
  CfiState state_;
  std::vector<CfiState> remembered_;
  std::optional<CfiLoss> loss_;
};

}  // namespace profd
