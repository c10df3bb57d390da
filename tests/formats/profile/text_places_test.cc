#include "formats/profile/text_places.h"

#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using testing::ElementsAre;

// Indexes 0 to 4.
TextPlaces ranked_places() {
  TextPlaces places(4);
  places.add("long text, of more than 8 bytes", 0);
  places.add("long tex", 1);
  places.add("b", 2);
  places.add("", 3);
  EXPECT_EQ(places.append("b"), 4U);
  places.rank();
  return places;
}

TEST(TextPlaces, RanksByBytes) {
  const TextPlaces places = ranked_places();
  EXPECT_EQ(places.rank_of(3), 0U);
  EXPECT_EQ(places.rank_of(2), 1U);
  EXPECT_EQ(places.rank_of(4), 1U);
  EXPECT_EQ(places.rank_of(1), 2U);
  EXPECT_EQ(places.rank_of(0), 3U);
}

TEST(TextPlaces, PlacesInTheOrderOfFirstUseAndTheOthersByRank) {
  TextPlaces places = ranked_places();
  EXPECT_EQ(places.place_of(0), 0U);
  EXPECT_EQ(places.place_of(4), 1U);
  EXPECT_EQ(places.place_of(0), 0U);
  EXPECT_EQ(places.place_of(2), 1U);
  places.place_others();
  EXPECT_THAT(std::move(places).take(),
              ElementsAre("long text, of more than 8 bytes", "b", "", "long tex"));
}

}  // namespace
}  // namespace profd
