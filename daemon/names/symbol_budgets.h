// Limits for reading the symbols of a session's or window's files: a budget for each owner, so that
// the files of one user do not use up the budget of another's. Subordinate uids are no owners of
// their own (uid_owners.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "collectors/host/uid_owners.h"
#include "formats/elf/elf_file.h"

namespace profd {

class SymbolBudgets {
 public:
  // Owners other than root with a budget of their own, since many owners could take much time. All
  // others share one budget.
  static constexpr std::size_t kMaxOwners = 16;

  explicit SymbolBudgets(const SymbolBudget& each = {}, UidOwners owners = UidOwners())
      : each_(each), of_root_(each), of_others_(each), owners_(std::move(owners)) {}

  // `owner` is a uid. Takes one of the budgets, so call it where there is work only, and for the
  // most important file first. Files of root do not use up their budget (elf_file.h).
  [[nodiscard]] SymbolBudget& of(std::uint32_t owner) {
    if (owner == 0) return of_root_;
    const std::uint32_t payer = owners_.owner_of(owner);
    if (by_owner_.size() >= kMaxOwners && !by_owner_.contains(payer)) return of_others_;
    return by_owner_.try_emplace(payer, each_).first->second;
  }

 private:
  SymbolBudget each_;
  SymbolBudget of_root_;
  SymbolBudget of_others_;
  UidOwners owners_;
  std::map<std::uint32_t, SymbolBudget> by_owner_;
};

}  // namespace profd
