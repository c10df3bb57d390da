#include "collectors/unwinding/rule_dictionary.h"

#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint32_t kRoot = 0;
constexpr std::uint32_t kUser = 1000;

profd_rule rule(std::int32_t offset) {
  profd_rule made{};
  made.kind = PROFD_RULE_REGISTER;
  made.cfa_offset = offset;
  return made;
}

std::vector<profd_rule> rules(std::int32_t first, std::int32_t count) {
  std::vector<profd_rule> made;
  for (std::int32_t i = 0; i < count; ++i) made.push_back(rule(first + i));
  return made;
}

class RuleDictionaryTest : public testing::Test {
 protected:
  std::vector<profd_rule> memory_ = std::vector<profd_rule>(PROFD_RULE_FIRST_FREE + 16);
  RuleDictionary dictionary_{memory_};
};

TEST_F(RuleDictionaryTest, TheFirstEntriesAreFixed) {
  EXPECT_EQ(memory_[PROFD_RULE_INDEX_UNKNOWN].kind, PROFD_RULE_UNKNOWN);
  EXPECT_EQ(memory_[PROFD_RULE_INDEX_END].kind, PROFD_RULE_END);
  const auto places = dictionary_.acquire(rules(1, 16), kRoot);
  ASSERT_TRUE(places);
  for (const std::uint32_t place : *places) EXPECT_GE(place, PROFD_RULE_FIRST_FREE);
  EXPECT_EQ(memory_[PROFD_RULE_INDEX_END].kind, PROFD_RULE_END);
}

TEST_F(RuleDictionaryTest, EqualRulesShareAPlaceWhileItIsUsed) {
  const auto first = dictionary_.acquire(rules(1, 3), kRoot);
  const auto second = dictionary_.acquire(rules(2, 3), kUser);
  EXPECT_EQ((*first)[1], (*second)[0]);
  EXPECT_EQ(dictionary_.size(), 4U);
  dictionary_.release(*first);
  EXPECT_EQ(dictionary_.size(), 3U);
  EXPECT_EQ(dictionary_[(*second)[0]].cfa_offset, 2);
  dictionary_.release(*second);
  EXPECT_EQ(dictionary_.size(), 0U);
}

TEST_F(RuleDictionaryTest, ReservedBytesDoNotMakeRulesDiffer) {
  profd_rule odd = rule(1);
  odd.reserved[3] = 7;
  const std::vector<profd_rule> both = {rule(1), odd};
  const auto places = dictionary_.acquire(both, kRoot);
  EXPECT_EQ((*places)[0], (*places)[1]);
}

TEST_F(RuleDictionaryTest, RulesThatDoNotFitChangeNothing) {
  ASSERT_TRUE(dictionary_.acquire(rules(1, 10), kRoot));
  EXPECT_FALSE(dictionary_.acquire(rules(5, 20), kRoot));
  EXPECT_EQ(dictionary_.size(), 10U);
  EXPECT_TRUE(dictionary_.acquire(rules(5, 12), kRoot));
}

TEST_F(RuleDictionaryTest, AUserMayHaveAllRulesThatAreFreeAndIsThenOverTheShare) {
  EXPECT_TRUE(dictionary_.acquire(rules(1, 2), kUser));
  EXPECT_FALSE(dictionary_.is_over_share(kUser));
  EXPECT_TRUE(dictionary_.is_over_share(kUser, 1));
  EXPECT_TRUE(dictionary_.acquire(rules(3, 14), kUser));
  EXPECT_TRUE(dictionary_.is_over_share(kUser));
  EXPECT_FALSE(dictionary_.acquire(rules(17, 1), kRoot));
  // Rules that are in the dictionary already count for the first user.
  EXPECT_TRUE(dictionary_.acquire(rules(1, 16), kUser + 1));
  EXPECT_FALSE(dictionary_.is_over_share(kUser + 1));
}

TEST_F(RuleDictionaryTest, RootHasNoShare) {
  EXPECT_TRUE(dictionary_.acquire(rules(1, 16), kRoot));
  EXPECT_FALSE(dictionary_.is_over_share(kRoot));
}

TEST_F(RuleDictionaryTest, ManyUsersHaveHalfOfTheRulesTogether) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_FALSE(dictionary_.is_over_share(kUser + i, 1));
    EXPECT_TRUE(dictionary_.acquire(rules(1 + static_cast<std::int32_t>(i), 1), kUser + i));
  }
  EXPECT_TRUE(dictionary_.is_over_share(kUser + 8, 1));
  EXPECT_TRUE(dictionary_.is_over_share(kUser, 1));
}

}  // namespace
}  // namespace profd
