#include "daemon/samples/stack_words.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// `count` words that no other call gives.
std::vector<std::uint64_t> some_words(std::size_t count) {
  static std::uint64_t next = 1;
  std::vector<std::uint64_t> words(count);
  std::iota(words.begin(), words.end(), next);
  next += count;
  return words;
}

TEST(StackWords, KeepsWhatWasAddedWhereItWas) {
  StackWords store;
  std::vector<std::pair<std::vector<std::uint64_t>, StackWords::Place>> added;
  std::vector<const std::uint64_t*> addresses;
  for (std::size_t i = 0; i < 2000; ++i) {
    std::vector<std::uint64_t> words = some_words(1 + i * 37 % 300);
    const StackWords::Place place = store.add(words);
    added.emplace_back(std::move(words), place);
    addresses.push_back(store.at(place, 0, 1).data());
  }
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto& [words, place] = added[i];
    ASSERT_THAT(store.at(place, 0, words.size()), ElementsAreArray(words));
    ASSERT_EQ(store.at(place, 0, 1).data(), addresses[i]) << "nothing is moved";
  }
}

TEST(StackWords, ReturnsAPartOfWhatWasAdded) {
  StackWords store;
  store.add(std::vector<std::uint64_t>{1, 2, 3});
  const StackWords::Place place = store.add(std::vector<std::uint64_t>{4, 5, 6});
  EXPECT_THAT(store.at(place, 1, 2), ElementsAre(5, 6));
}

TEST(StackWords, TakesMoreThanAChunkAtOnce) {
  StackWords store;
  store.add(some_words(3));
  const std::vector<std::uint64_t> words = some_words(100'000);
  EXPECT_THAT(store.at(store.add(words), 0, words.size()), ElementsAreArray(words));
}

TEST(StackWords, ACopySharesTheMemoryAndBothGoOnByThemselves) {
  StackWords store;
  for (int i = 0; i < 10; ++i) store.add(some_words(4));
  const std::vector<std::uint64_t> words = some_words(4);
  const StackWords::Place place = store.add(words);
  StackWords copy = store;
  EXPECT_EQ(copy.at(place, 0, 4).data(), store.at(place, 0, 4).data());
  const std::vector<std::uint64_t> later = some_words(2);
  const std::vector<std::uint64_t> later_of_copy = some_words(2);
  const StackWords::Place next = store.add(later);
  const StackWords::Place next_of_copy = copy.add(later_of_copy);
  EXPECT_THAT(store.at(place, 0, 4), ElementsAreArray(words));
  EXPECT_THAT(store.at(next, 0, 2), ElementsAreArray(later));
  EXPECT_THAT(copy.at(place, 0, 4), ElementsAreArray(words));
  EXPECT_THAT(copy.at(next_of_copy, 0, 2), ElementsAreArray(later_of_copy));
}

TEST(StackWords, IsEmptyAfterItWasMoved) {
  StackWords store;
  store.add(some_words(4));
  const StackWords moved = std::move(store);
  store = StackWords();
  const std::vector<std::uint64_t> words = some_words(2);
  EXPECT_THAT(store.at(store.add(words), 0, 2), ElementsAreArray(words));
}

}  // namespace
}  // namespace profd
