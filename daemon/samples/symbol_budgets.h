// What the symbols of one session's or window's files may cost: so much for each owner, so that one
// user's files don't use up what another's need.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "formats/elf/elf_file.h"

namespace profd {

class SymbolBudgets {
 public:
  // Anyone with a range of subordinate ids has many; those beyond these get nothing.
  static constexpr std::size_t kMaxOwners = 16;

  explicit SymbolBudgets(const SymbolBudget& each = {}) : each_(each) {}

  // By uid. Root's own files don't use theirs up (elf_file.h).
  [[nodiscard]] SymbolBudget& of(std::uint32_t owner) {
    if (by_owner_.size() >= kMaxOwners && !by_owner_.contains(owner)) return nothing_;
    return by_owner_.try_emplace(owner, each_).first->second;
  }

 private:
  SymbolBudget each_;
  SymbolBudget nothing_{.table_bytes = 0, .time = {}};
  std::map<std::uint32_t, SymbolBudget> by_owner_;
};

}  // namespace profd
