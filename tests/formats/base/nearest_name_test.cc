#include "formats/base/nearest_name.h"

#include <array>

#include <gmock/gmock.h>

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<std::string_view, 5> kKnown = {"socket", "state_dir", "log_level",
                                                    "ring_bytes", "log_file"};

TEST(NearestNames, FindsTheNameThatFewEditsReach) {
  EXPECT_THAT(nearest_names("sokcet", kKnown), ElementsAre("socket"));
  EXPECT_THAT(nearest_names("statedir", kKnown), ElementsAre("state_dir"));
}

TEST(NearestNames, TakesABeginningForTheNearestInTheOrderGiven) {
  EXPECT_THAT(nearest_names("log", kKnown), ElementsAre("log_level", "log_file"));
  EXPECT_THAT(nearest_names("log", kKnown, 1), ElementsAre("log_level"));
}

TEST(NearestNames, OffersNothingForADistantName) {
  EXPECT_THAT(nearest_names("colour", kKnown), IsEmpty());
  EXPECT_THAT(nearest_names("", kKnown), IsEmpty());
  EXPECT_THAT(nearest_names(std::string(1'000'000, 's'), kKnown), IsEmpty());
}

TEST(DidYouMean, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean({}), "");
  EXPECT_EQ(did_you_mean(std::array<std::string_view, 1>{"a"}), "did you mean a?");
  EXPECT_EQ(did_you_mean(std::array<std::string_view, 3>{"a", "b", "c"}),
            "did you mean a, b or c?");
}

}  // namespace
}  // namespace profd
