#include "formats/profile/packed_numbers.h"

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <protozero/varint.hpp>

namespace profd {
namespace {

std::string packed(const std::vector<std::uint64_t>& numbers) {
  std::string bytes;
  for (const std::uint64_t number : numbers) {
    protozero::write_varint(std::back_inserter(bytes), number);
  }
  return bytes;
}

// From numbers, not from bytes.
std::size_t expected_of(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::size_t count = 0;
  while (count < a.size() && count < b.size() && a[a.size() - count - 1] == b[b.size() - count - 1])
    ++count;
  return packed({a.end() - static_cast<std::ptrdiff_t>(count), a.end()}).size();
}

TEST(PackedNumbersTest, ListsHaveTheirLastEqualNumbersInCommon) {
  EXPECT_EQ(common_last_numbers(packed({1, 2, 3}), packed({9, 2, 3})), 2U);
  EXPECT_EQ(common_last_numbers(packed({1, 2, 3}), packed({2, 3})), 2U);
  EXPECT_EQ(common_last_numbers(packed({1}), packed({2})), 0U);
  EXPECT_EQ(common_last_numbers(packed({}), packed({2})), 0U);
  const std::string same = packed({300, 7, 1 << 20, 5, 6, 70000, 300});
  EXPECT_EQ(common_last_numbers(same, same), same.size());
}

TEST(PackedNumbersTest, TheLastByteOfALongerNumberIsNotInCommon) {
  // 133 is 0x85 0x01.
  EXPECT_EQ(common_last_numbers(packed({133}), packed({1})), 0U);
  EXPECT_EQ(common_last_numbers(packed({1}), packed({133})), 0U);
  EXPECT_EQ(common_last_numbers(packed({133, 5}), packed({1, 5})), 1U);
  EXPECT_EQ(common_last_numbers(packed({133, 5}), packed({134, 5})), 1U);
}

TEST(PackedNumbersTest, RandomListsHaveInCommonWhatTheirNumbersHave) {
  std::mt19937_64 random(3);  // NOLINT: the same every time
  for (int round = 0; round < 5000; ++round) {
    const auto list = [&](std::size_t size) {
      std::vector<std::uint64_t> numbers(size);
      for (std::uint64_t& number : numbers) number = random() % (random() % 2 == 0 ? 3 : 40'000);
      return numbers;
    };
    const auto outer = list(random() % 12);
    auto a = list(random() % 4);
    auto b = list(random() % 4);
    a.insert(a.end(), outer.begin(), outer.end());
    b.insert(b.end(), outer.begin(), outer.end());
    EXPECT_EQ(common_last_numbers(packed(a), packed(b)), expected_of(a, b));
  }
}

}  // namespace
}  // namespace profd
