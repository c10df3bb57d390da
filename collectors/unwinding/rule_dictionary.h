// The dictionary of the rules that don't fit in a row. Tables share equal rules.
//
// The array is a BPF map; the programs read an entry only through a row. An entry is written before
// any row that refers to it. A place is reused only after the programs that could read its last
// rows have ended: release() must be called after that. A rule counts for the user who needed it
// first (table_budget.h).

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
  // Borrows the array and writes its fixed entries.
  explicit RuleDictionary(std::span<profd_rule> rules);

  // The places of the rules, one for each; equal rules have the same place. None, without a change,
  // if there is no room for all of them.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> acquire(std::span<const profd_rule> rules,
                                                                  std::uint32_t payer);
  void release(std::span<const std::uint32_t> places);

  [[nodiscard]] bool is_over_share(std::uint32_t payer, std::size_t more = 0) const {
    return budget_.is_over_share(payer, {.words = 0, .entries = more});
  }

  [[nodiscard]] const profd_rule& operator[](std::uint32_t place) const { return rules_[place]; }
  [[nodiscard]] std::size_t size() const { return by_value_.size(); }
  [[nodiscard]] std::size_t capacity() const { return rules_.size() - PROFD_RULE_FIRST_FREE; }

 private:
  using Value = std::array<std::uint64_t, sizeof(profd_rule) / sizeof(std::uint64_t)>;
  static Value value_of(profd_rule rule);
  struct Place {
    std::uint32_t users = 0;
    std::uint32_t payer = 0;
  };
  std::optional<std::uint32_t> acquire_one(const profd_rule& rule, std::uint32_t payer);

  std::span<profd_rule> rules_;
  // Not a hash map: other users choose the content, and could make it collide.
  std::map<Value, std::uint32_t> by_value_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  TableBudget budget_;  // each rule is an entry
};

}  // namespace profd
