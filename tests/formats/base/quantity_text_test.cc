#include "formats/base/quantity_text.h"

#include <gmock/gmock.h>

namespace profd {
namespace {

using std::chrono::milliseconds;

TEST(QuantityText, ReadsDurationsInEveryUnit) {
  struct Case {
    const char* text;
    std::int64_t milliseconds;
  };
  const Case cases[] = {
      {"0s", 0},           {"1ms", 1},          {"60s", 60'000}, {"1.5m", 90'000},
      {"24h", 86'400'000}, {"7d", 604'800'000}, {"0.5ms", 0},    {"36525d", 3155760000000}};
  for (const Case& c : cases) {
    EXPECT_EQ(parse_duration(c.text), milliseconds(c.milliseconds)) << c.text;
  }
}

TEST(QuantityText, ReadsSizesInEveryUnit) {
  struct Case {
    const char* text;
    std::uint64_t bytes;
  };
  const Case cases[] = {{"0B", 0},           {"17B", 17},          {"64KiB", 65536},
                        {"1.5MiB", 1572864}, {"1GiB", 1073741824}, {"2TiB", 2199023255552}};
  for (const Case& c : cases) EXPECT_EQ(parse_bytes(c.text), c.bytes) << c.text;
}

TEST(QuantityText, RefusesOtherTexts) {
  for (const char* text : {"", "s", "60", "60 s", " 60s", "60sec", "-1s", "+1s", "1.2.3s", "1e3s",
                           "0x10s", "nans", "infs", "s60", "60S", "36526d", "99999999999999999d"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
  for (const char* text : {"", "B", "1", "1 GiB", "1GB", "1G", "1gib", "-1B", "1e3B", ".B",
                           "99999999TiB", "9999999999999999999999B"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(QuantityText, WritesTheExactValueInItsLargestWholeUnit) {
  EXPECT_EQ(exact_duration_text(milliseconds(0)), "0ms");
  EXPECT_EQ(exact_duration_text(milliseconds(1500)), "1500ms");
  EXPECT_EQ(exact_duration_text(milliseconds(60'000)), "1m");
  EXPECT_EQ(exact_duration_text(milliseconds(90'000)), "90s");
  EXPECT_EQ(exact_duration_text(milliseconds(604'800'000)), "7d");
  EXPECT_EQ(exact_bytes_text(0), "0B");
  EXPECT_EQ(exact_bytes_text(1000), "1000B");
  EXPECT_EQ(exact_bytes_text(65536), "64KiB");
  EXPECT_EQ(exact_bytes_text(std::uint64_t{1} << 30), "1GiB");
}

TEST(QuantityText, ReadsWhatItWrites) {
  for (const std::uint64_t value : {1ULL, 999ULL, 1024ULL, 61'000ULL, 3'600'000ULL, 1ULL << 40}) {
    EXPECT_EQ(parse_bytes(exact_bytes_text(value)), value);
    const milliseconds duration(static_cast<std::int64_t>(value));
    EXPECT_EQ(parse_duration(exact_duration_text(duration)), duration);
  }
}

}  // namespace
}  // namespace profd
