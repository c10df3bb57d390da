// Limits for reading the symbols of a session's or window's files: a budget for each owner, so that
// the files of one user do not use up the budget of another's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "formats/elf/elf_file.h"

namespace profd {

class SymbolBudgets {
 public:
  // A user with subordinate ids can make files of many owners. Owners beyond these get no symbols.
  static constexpr std::size_t kMaxOwners = 16;

  explicit SymbolBudgets(const SymbolBudget& each = {}) : each_(each) {}

  // `owner` is a uid. Files of root do not use up their budget (elf_file.h).
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
