#include "formats/profile/sample_times.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "formats/profile/times_file.h"

namespace profd {
namespace {

using namespace std::string_literals;
using Counts = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>;

SampleTimes random_times(unsigned seed, std::uint32_t samples, std::uint32_t ticks) {
  std::mt19937 random(seed);
  SampleTimes times;
  for (int i = 0; i < 2000; ++i) {
    times.entries.push_back({.sample = static_cast<std::uint32_t>(random() % samples),
                             .tick = static_cast<std::uint32_t>(random() % ticks),
                             .count = static_cast<std::uint32_t>(1 + random() % 3)});
  }
  return times;
}

Counts counts_of(const SampleTimes& times) {
  Counts counts;
  for (const SampleTime& time : times.entries) counts[{time.sample, time.tick}] += time.count;
  return counts;
}

TEST(SampleTimes, ComeBackAsTheyWereEncoded) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SampleTimes times = random_times(seed, 1 + seed * seed * seed * 7, 1 + seed * 50'000);
    const Counts expected = counts_of(times);
    normalize(times);
    EXPECT_EQ(times.entries.size(), expected.size());
    const auto decoded = decode_sample_times(encode_sample_times(times));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, times);
    EXPECT_EQ(counts_of(*decoded), expected);
  }
}

TEST(SampleTimes, EndWhereTheyAreNotComplete) {
  SampleTimes times{.until = 10, .entries = {{0, 9}, {1, 10}, {0, 11}, {2, 0}}};
  normalize(times);
  EXPECT_EQ(times, (SampleTimes{.until = 10, .entries = {{0, 9}, {2, 0}}}));
}

TEST(SampleTimes, WithTooManyEntriesEndSooner) {
  SampleTimes times;
  for (std::uint32_t i = 0; i < kMaxSampleTimes + 10; ++i) {
    times.entries.push_back({.sample = i, .tick = i % 1000});
  }
  normalize(times);
  EXPECT_LT(times.until, 1000U);
  EXPECT_LE(times.entries.size(), kMaxSampleTimes);
  EXPECT_GT(times.entries.size(), kMaxSampleTimes - kMaxSampleTimes / 500);
  std::uint64_t last_tick = 0;
  for (const SampleTime& time : times.entries)
    last_tick = std::max<std::uint64_t>(last_tick, time.tick);
  EXPECT_EQ(last_tick, times.until - 1);
}

TEST(SampleTimes, WhenCutAreRefusedOrFewer) {
  SampleTimes times = random_times(3, 400, 70'000);
  normalize(times);
  const std::string whole = encode_sample_times(times);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = decode_sample_times(std::string_view(whole).substr(0, size));
    if (cut) {
      EXPECT_LT(cut->entries.size(), times.entries.size());
    }
  }
  EXPECT_FALSE(decode_sample_times(""));
}

TEST(SampleTimes, OutOfRangeAreRefused) {
  const std::string until = "\x05";
  const std::string max_tick = "\xc0\x84\x3d";  // kMaxTicks, a million
  const std::string below = "\xbf\x84\x3d";     // one less
  const std::string max_sample = "\xff\xff\xff\xff\x0f";
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  ASSERT_EQ(kMaxTicks, 1'000'000U);
  EXPECT_TRUE(decode_sample_times(max_tick));
  EXPECT_FALSE(decode_sample_times("\xc1\x84\x3d"));
  EXPECT_TRUE(decode_sample_times(until + max_sample + below + "\x01"));
  EXPECT_FALSE(decode_sample_times(until + "\x01" + max_tick + "\x01"));
  EXPECT_FALSE(decode_sample_times(until + "\x01" + huge + "\x01"));
  EXPECT_FALSE(decode_sample_times(until + huge + "\x01\x01"));
  EXPECT_FALSE(decode_sample_times(until + "\x01\x01" + huge));
  EXPECT_FALSE(decode_sample_times(until + "\x01\x01\0"s)) << "a count of 0";
  EXPECT_FALSE(decode_sample_times(until + max_sample + "\x01\x01" + "\x01\x01\x01"));
  EXPECT_FALSE(decode_sample_times(until + "\x01" + below + "\x01" + "\0\x01\x01"s));
  EXPECT_FALSE(decode_sample_times(until + "\x01\x01\x01" + "\0\0\x01"s)) << "twice the same";
  EXPECT_TRUE(decode_sample_times(until + "\0\0\x01"s)) << "the first one of all";
}

TEST(SampleTimes, TooManyAreRefused) {
  std::string bytes = "\x05";
  for (std::size_t i = 0; i <= kMaxSampleTimes; ++i) bytes += "\x01\x01\x01";
  EXPECT_FALSE(decode_sample_times(bytes));
  bytes.resize(bytes.size() - 3);
  EXPECT_TRUE(decode_sample_times(bytes));
}

TEST(TimesFile, HasTheStartBesideTheTimes) {
  const SampleTimes times{.until = 9, .entries = {{0, 3, 2}, {4, 8, 1}}};
  const std::string file =
      encode_times_file({.start_ns = 1'700'000'000'123'456'789, .times = times});
  const auto decoded = decode_times_file(file);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->start_ns, 1'700'000'000'123'456'789);
  EXPECT_EQ(decoded->times, times);
  for (std::size_t size = 0; size < 9; ++size) {
    EXPECT_FALSE(decode_times_file(std::string_view(file).substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_times_file("\x01\x01\x01\x01\x01\x01\x01\xff\x05")) << "before 1970";
  EXPECT_TRUE(decode_times_file("\x01\x01\x01\x01\x01\x01\x01\x7f\x05"));
}

}  // namespace
}  // namespace profd
