// The rules that don't fit a row, each once for all tables: who uses which, and which places are
// free.
//
// The array is the kernel side's own; it reads an entry only through a row. Entries are written
// before any row that names them is, and a place is used again only after the programs that could
// read its last rows are over: release() is for after that. A rule counts for whoever needed it
// first; others than root may have half of all, one of them a quarter.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "bpf/unwind_rows.h"
#include "collectors/unwinding/table_budget.h"

namespace profd {

class RuleDictionary {
 public:
  // Borrows the array and writes its fixed first entries.
  explicit RuleDictionary(std::span<profd_rule> rules);

  // Where the rules stand, one by one; equal ones in one place. None, and no change, where there is
  // no room for all of them, or the owner's share is used up.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> acquire(std::span<const profd_rule> rules,
                                                                  std::uint32_t owner);
  void release(std::span<const std::uint32_t> places);

  // Whose rules would have to go for acquire() to find room.
  [[nodiscard]] TableShortage shortage(std::span<const profd_rule> rules,
                                       std::uint32_t owner) const;

  [[nodiscard]] const profd_rule& operator[](std::uint32_t place) const { return rules_[place]; }
  [[nodiscard]] std::size_t size() const { return by_value_.size(); }
  [[nodiscard]] std::size_t capacity() const { return rules_.size() - PROFD_RULE_FIRST_FREE; }

 private:
  using Value = std::array<std::uint64_t, sizeof(profd_rule) / sizeof(std::uint64_t)>;
  static Value value_of(profd_rule rule);
  struct Place {
    std::uint32_t users = 0;
    std::uint32_t owner = 0;
  };
  std::optional<std::uint32_t> acquire_one(const profd_rule& rule, std::uint32_t owner);

  std::span<profd_rule> rules_;
  // Ordered, not hashed: other users choose what is in it.
  std::map<Value, std::uint32_t> by_value_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  TableBudget budget_;  // rules are its entries
};

}  // namespace profd
