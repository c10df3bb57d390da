#include "collectors/unwinding/rule_dictionary.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace profd {

RuleDictionary::RuleDictionary(std::span<profd_rule> rules)
    : rules_(rules), places_(rules.size()), budget_({.words = 0, .entries = capacity()}) {
  rules_[PROFD_RULE_INDEX_UNKNOWN] = {};
  rules_[PROFD_RULE_INDEX_END] = {};
  rules_[PROFD_RULE_INDEX_END].kind = PROFD_RULE_END;
  free_.resize(capacity());
  std::iota(free_.rbegin(), free_.rend(), PROFD_RULE_FIRST_FREE);
}

// The reserved bytes have no meaning, so they must not make equal rules differ.
RuleDictionary::Value RuleDictionary::value_of(profd_rule rule) {
  std::ranges::fill(rule.reserved, std::uint8_t{0});
  return std::bit_cast<Value>(rule);
}

std::optional<std::vector<std::uint32_t>> RuleDictionary::acquire(std::span<const profd_rule> rules,
                                                                  std::uint32_t payer) {
  std::vector<std::uint32_t> places;
  places.reserve(rules.size());
  for (const profd_rule& rule : rules) {
    const auto place = acquire_one(rule, payer);
    if (!place) {
      release(places);
      return std::nullopt;
    }
    places.push_back(*place);
  }
  return places;
}

std::optional<std::uint32_t> RuleDictionary::acquire_one(const profd_rule& rule,
                                                         std::uint32_t payer) {
  constexpr TableUse kOne{.words = 0, .entries = 1};
  const Value value = value_of(rule);
  auto known = by_value_.find(value);
  if (known == by_value_.end()) {
    if (!budget_.has_room(kOne)) return std::nullopt;
    budget_.add(payer, kOne);
    known = by_value_.emplace(value, free_.back()).first;
    free_.pop_back();
    places_[known->second].payer = payer;
    rules_[known->second] = std::bit_cast<profd_rule>(value);
  }
  ++places_[known->second].users;
  return known->second;
}

void RuleDictionary::release(std::span<const std::uint32_t> places) {
  for (const std::uint32_t place : places) {
    if (--places_[place].users != 0) continue;
    budget_.remove(places_[place].payer, {.words = 0, .entries = 1});
    by_value_.erase(value_of(rules_[place]));
    free_.push_back(place);
  }
}

}  // namespace profd
