#include "collectors/xray/function_choice.h"

#include <gmock/gmock.h>

namespace profd::xray {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"main",        "_ZN5Cache3getEi", "", "_ZN5Cache3putEii",
                                         "_Z5parsePKc", "not_mangled"};

std::vector<std::int32_t> chosen(std::string_view pattern) {
  const auto choice = choose_functions(kNames, pattern);
  EXPECT_TRUE(choice) << (choice ? "" : choice.error().message);
  return choice ? *choice : std::vector<std::int32_t>();
}

TEST(FunctionChoice, MatchesDemangledNamesAnywhere) {
  EXPECT_THAT(chosen("Cache::"), ElementsAre(2, 4));
  EXPECT_THAT(chosen("^parse\\(char const\\*\\)$"), ElementsAre(5));
  EXPECT_THAT(chosen("mangled|^main$"), ElementsAre(1, 6));
}

TEST(FunctionChoice, MatchesNamesWithoutTheirArguments) {
  EXPECT_THAT(chosen("^parse$"), ElementsAre(5));
  EXPECT_THAT(chosen("^Cache::(get|put)$"), ElementsAre(2, 4));
  const auto members =
      choose_functions({"_ZNK5CacheclEi", "_Z4callPFviE"}, "::operator\\(\\)$|^call$");
  ASSERT_TRUE(members);
  EXPECT_THAT(*members, ElementsAre(1, 2));
}

TEST(FunctionChoice, DoesNotMatchMangledOrEmptyNames) {
  EXPECT_THAT(chosen("_ZN5"), IsEmpty());
  EXPECT_THAT(chosen("^$"), IsEmpty());
}

TEST(FunctionChoice, TakesLinearTimeForAnyExpression) {
  const std::vector<std::string> names(1000, std::string(1024, 'a'));
  const auto choice = choose_functions(names, "(a*)*(a*)*(a*)*(a*)*b$");  // a hang guard
  ASSERT_TRUE(choice);
  EXPECT_THAT(*choice, IsEmpty());
}

TEST(FunctionChoice, SaysWhatIsWrongWithAnExpression) {
  for (const char* pattern : {"(", "a{2,1}", "[", "(?<x>a)(?<x>b)(", "\\"}) {
    const auto checked = check_pattern(pattern);
    ASSERT_FALSE(checked) << pattern;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(checked.error().message, HasSubstr("not a regular expression"));
    EXPECT_FALSE(choose_functions(kNames, pattern));
  }
  EXPECT_FALSE(check_pattern(std::string(kMaxPatternBytes + 1, 'a')));
  EXPECT_TRUE(check_pattern(std::string(kMaxPatternBytes, 'a')));
}

TEST(FunctionChoice, RefusesExpressionsThatTakeMuchMemory) {
  EXPECT_FALSE(check_pattern("((((((a{100}){100}){100}){100}){100}){100})"));
}

}  // namespace
}  // namespace profd::xray
