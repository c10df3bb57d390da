// What samples say of their recording, when two are added up, and in the profile that is made of
// them: expected values are by hand.

#include "ctl/views/samples_pprof.h"

#include <array>
#include <cstdint>

#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "formats/profile/sample_times.h"

namespace profd {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kSecondNs = 1'000'000'000;

// Three samples of one stack, two of them in this tick, of a recording that took one second.
Samples a_recording(std::int64_t start_ns, std::uint32_t tick, std::uint32_t until = kMaxTicks) {
  Samples samples;
  samples.has_cpu_time = true;
  samples.duration_ns = kSecondNs;
  samples.time_ns = start_ns;
  const SampledFrame frame{.function = samples.add_function({.name = samples.add_text("work")})};
  const std::array<std::uint32_t, 1> stack{samples.add_location({&frame, 1})};
  samples.add(stack, samples.add_labels({.pid = 7}), {.samples = 3, .cpu_ns = 30});
  EXPECT_TRUE(
      samples.set_times({.until = until, .entries = {{.sample = 0, .tick = tick, .count = 2}}}));
  return samples;
}

// A second has 50 ticks.
TEST(SamplesPprof, TicksCountFromTheEarlierStart) {
  Samples sum = a_recording(10 * kSecondNs, 4);
  add_samples(a_recording(11 * kSecondNs, 5), sum);
  EXPECT_EQ(sum.time_ns, 10 * kSecondNs);
  EXPECT_EQ(sum.duration_ns, 2 * kSecondNs);
  ASSERT_TRUE(sum.times());
  EXPECT_EQ(sum.times()->until, kMaxTicks);
  EXPECT_THAT(sum.times()->entries, ElementsAre(SampleTime{.sample = 0, .tick = 4, .count = 2},
                                                SampleTime{.sample = 1, .tick = 55, .count = 2}));
  // In the other order too.
  sum = a_recording(11 * kSecondNs, 5);
  add_samples(a_recording(10 * kSecondNs, 4), sum);
  EXPECT_EQ(sum.time_ns, 10 * kSecondNs);
  ASSERT_TRUE(sum.times());
  EXPECT_THAT(sum.times()->entries, ElementsAre(SampleTime{.sample = 0, .tick = 55, .count = 2},
                                                SampleTime{.sample = 1, .tick = 4, .count = 2}));
}

TEST(SamplesPprof, TimesEndWhereThoseOfOneRecordingDo) {
  Samples sum = a_recording(10 * kSecondNs, 4, 60);
  add_samples(a_recording(11 * kSecondNs, 10), sum);  // tick 60
  ASSERT_TRUE(sum.times());
  EXPECT_EQ(sum.times()->until, 60U);
  EXPECT_THAT(sum.times()->entries, ElementsAre(SampleTime{.sample = 0, .tick = 4, .count = 2}));
  sum = a_recording(10 * kSecondNs, 4);
  add_samples(a_recording(11 * kSecondNs, 5, 7), sum);
  ASSERT_TRUE(sum.times());
  EXPECT_EQ(sum.times()->until, 57U);
  // A day later there are no ticks.
  sum = a_recording(10 * kSecondNs, 4);
  add_samples(a_recording(86'400 * kSecondNs, 5), sum);
  ASSERT_TRUE(sum.times());
  EXPECT_EQ(sum.times()->entries.size(), 1U);
}

TEST(SamplesPprof, WithoutTheTimesOfOneThereAreNone) {
  Samples without = a_recording(11 * kSecondNs, 5);
  without.forget_times();
  Samples sum = a_recording(10 * kSecondNs, 4);
  add_samples(without, sum);
  EXPECT_FALSE(sum.times());
  sum = a_recording(10 * kSecondNs, 4);
  add_samples(a_recording(0, 5), sum);
  EXPECT_FALSE(sum.times());
  EXPECT_EQ(sum.time_ns, 10 * kSecondNs);
  add_samples(a_recording(0, 5), sum);
  EXPECT_EQ(sum.rows().size(), 3U);
}

TEST(SamplesPprof, LossesAddUpByReason) {
  Samples sum = a_recording(kSecondNs, 4);
  add_samples(a_recording(kSecondNs, 4), sum);
  EXPECT_FALSE(sum.losses);
  Samples more = a_recording(kSecondNs, 4);
  more.losses = SampleLosses{.written = 3,
                             .lost = {{.reason = "ring_full", .count = 1}},
                             .user_samples = 2,
                             .incomplete = {{.reason = "no_row", .count = 1}}};
  add_samples(more, sum);
  ASSERT_TRUE(sum.losses);
  EXPECT_EQ(sum.losses->written, 3U);
  more.losses->lost.push_back({.reason = "slots", .count = 4});
  add_samples(more, sum);
  EXPECT_EQ(sum.losses->written, 6U);
  EXPECT_EQ(sum.losses->user_samples, 4U);
  EXPECT_EQ(by_reason(sum.losses->lost), (CountsByReason{{"ring_full", 2}, {"slots", 4}}));
  EXPECT_EQ(by_reason(sum.losses->incomplete), (CountsByReason{{"no_row", 2}}));
}

TEST(SamplesPprof, EqualStacksHaveTheTimesOfAll) {
  Samples sum = a_recording(10 * kSecondNs, 4);
  add_samples(a_recording(11 * kSecondNs, 5), sum);
  const PprofProfile profile = pprof_of_samples(sum);
  ASSERT_EQ(profile.samples().size(), 1U);
  EXPECT_EQ(profile.time_ns, 10 * kSecondNs);
  EXPECT_EQ(profile.own_data, "");
  ASSERT_TRUE(profile.times);
  EXPECT_THAT(profile.times->entries, ElementsAre(SampleTime{.sample = 0, .tick = 4, .count = 2},
                                                  SampleTime{.sample = 0, .tick = 55, .count = 2}));
}

}  // namespace
}  // namespace profd
