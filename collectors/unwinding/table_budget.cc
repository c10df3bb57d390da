#include "collectors/unwinding/table_budget.h"

#include <algorithm>
#include <cstddef>

namespace profd {
namespace {

constexpr std::size_t kShareOfUsers = 2;    // all but root together: 1/2 of the total
constexpr std::size_t kMinShareOfUser = 8;  // one of them: 1/8 at most

}  // namespace

TableUse& TableUse::operator+=(const TableUse& other) {
  words += other.words;
  entries += other.entries;
  return *this;
}

TableUse& TableUse::operator-=(const TableUse& other) {
  words -= other.words;
  entries -= other.entries;
  return *this;
}

bool TableBudget::has_room(const TableUse& more) const {
  TableUse use = used_;
  use += more;
  return use.words <= limit_.words && use.entries <= limit_.entries;
}

bool TableBudget::is_over_share(std::uint32_t payer, const TableUse& more,
                                const TableUse& less) const {
  if (payer == 0) return false;
  const auto known = by_payer_.find(payer);
  TableUse use = known == by_payer_.end() ? TableUse{} : known->second;
  use += more;
  use -= less;
  const std::size_t known_users = by_payer_.size() - by_payer_.count(0);
  const std::size_t users = known_users + (known == by_payer_.end() ? 1 : 0);
  const std::size_t share = std::max(kMinShareOfUser, kShareOfUsers * users);
  return use.words > limit_.words / share || use.entries > limit_.entries / share;
}

void TableBudget::add(std::uint32_t payer, const TableUse& use) {
  used_ += use;
  by_payer_[payer] += use;
}

void TableBudget::remove(std::uint32_t payer, const TableUse& use) {
  used_ -= use;
  TableUse& of_payer = by_payer_[payer];
  of_payer -= use;
  if (of_payer.words == 0 && of_payer.entries == 0) by_payer_.erase(payer);
}

}  // namespace profd
