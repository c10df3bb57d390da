#include "collectors/unwinding/table_budget.h"

namespace profd {
namespace {

constexpr unsigned kShareOfOthers = 2;  // 1/2 of the total
constexpr unsigned kShareOfOwner = 4;   // 1/4 of the total

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

bool TableBudget::fits(TableUse use, const TableUse& more, unsigned share) const {
  use += more;
  return use.words <= limit_.words / share && use.entries <= limit_.entries / share;
}

TableShortage TableBudget::shortage(std::uint32_t owner, const TableUse& more) const {
  if (owner != 0) {
    const auto known = by_owner_.find(owner);
    const TableUse of_owner = known == by_owner_.end() ? TableUse{} : known->second;
    TableUse of_others = used_;
    if (const auto root = by_owner_.find(0); root != by_owner_.end()) of_others -= root->second;
    if (!fits(of_owner, more, kShareOfOwner)) return TableShortage::kOfOwner;
    if (!fits(of_others, more, kShareOfOthers)) return TableShortage::kOfOthersThanRoot;
  }
  return fits(used_, more, 1) ? TableShortage::kNone : TableShortage::kOfAll;
}

void TableBudget::add(std::uint32_t owner, const TableUse& use) {
  used_ += use;
  by_owner_[owner] += use;
}

void TableBudget::remove(std::uint32_t owner, const TableUse& use) {
  used_ -= use;
  TableUse& of_owner = by_owner_[owner];
  of_owner -= use;
  if (of_owner.words == 0 && of_owner.entries == 0) by_owner_.erase(owner);
}

}  // namespace profd
