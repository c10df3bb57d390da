#include "collectors/sampling/event_spec.h"

#include <linux/perf_event.h>

#include <algorithm>

#include <gmock/gmock.h>

#include "formats/api/event_list.h"

namespace profd {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(EventSpec, TakesNinetyNineHertzWhenNoRateIsGiven) {
  const Result<EventSpec> spec = make_event_spec("cpu-clock", 0, 0);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->frequency_hz, 99u);
  EXPECT_EQ(spec->period, 0u);
}

TEST(EventSpec, KnowsPerfsAliasesAsTheSameEvent) {
  const std::pair<const char*, const char*> aliases[] = {{"page-faults", "faults"},
                                                         {"context-switches", "cs"},
                                                         {"cycles", "cpu-cycles"},
                                                         {"branches", "branch-instructions"}};
  for (const auto& [name, alias] : aliases) {
    EXPECT_TRUE(make_event_spec(name, 0, 10)->same_events(*make_event_spec(alias, 0, 10))) << name;
  }
}

TEST(EventSpec, OnlyClocksAreTime) {
  for (const KnownEvent& event : known_events()) {
    const std::string_view name = event.name;
    const Result<EventSpec> spec = make_event_spec(name, 0, 1'000'000);
    ASSERT_TRUE(spec) << name;
    const bool clock = name == "cpu" || name == "cpu-clock" || name == "task-clock";
    EXPECT_EQ(spec->is_time, clock) << name;
    EXPECT_EQ(spec->unit, clock ? "microseconds" : std::string(name));
  }
}

TEST(EventSpec, TheDefaultEventIsTheCpuClockWhoseSamplesAreTrueTime) {
  for (const auto& [frequency_hz, period] : {std::pair(499u, 0u), std::pair(0u, 1'000'000u)}) {
    const Result<EventSpec> spec = make_event_spec("cpu", frequency_hz, period);
    ASSERT_TRUE(spec);
    EXPECT_TRUE(spec->same_events(*make_event_spec("cpu-clock", frequency_hz, period)));
    EXPECT_EQ(spec->type, static_cast<std::uint32_t>(PERF_TYPE_SOFTWARE));
    EXPECT_EQ(spec->config, static_cast<std::uint64_t>(PERF_COUNT_SW_CPU_CLOCK));
  }
}

TEST(EventSpec, RefusesARateAboveTheKernelsLimitAndNamesIt) {
  const std::string limit = std::to_string(max_sample_rate_hz());
  const Result<EventSpec> frequency = make_event_spec("cpu-clock", 1'000'000'000, 0);
  ASSERT_FALSE(frequency);
  EXPECT_EQ(frequency.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(frequency.error().message, HasSubstr(limit));
  const Result<EventSpec> period = make_event_spec("cpu-clock", 0, 1);
  ASSERT_FALSE(period);
  EXPECT_THAT(period.error().message, HasSubstr(limit));
  EXPECT_TRUE(make_event_spec("cpu-clock", max_sample_rate_hz(), 0));
}

TEST(EventSpec, RefusesAFrequencyTogetherWithAPeriod) {
  EXPECT_FALSE(make_event_spec("cpu", 99, 10'000'000));
}

// Finds a period in another unit, which makes gperftools profiles off by its factor.
TEST(EventSpec, OffCpuAndRunnableCountMicrosecondsAndHaveNoTicks) {
  for (const auto& [name, kind] :
       {std::pair("off-cpu", EventKind::kOffCpu), std::pair("runnable", EventKind::kRunnable)}) {
    const Result<EventSpec> spec = make_event_spec(name, 0, 0);
    ASSERT_TRUE(spec) << name;
    EXPECT_EQ(spec->kind, kind);
    EXPECT_TRUE(spec->is_time);
    EXPECT_EQ(spec->unit, "microseconds");
    EXPECT_EQ(spec->period, 1000u);
    EXPECT_EQ(spec->frequency_hz, 0u);
    EXPECT_TRUE(spec->has_blocks());
    EXPECT_FALSE(spec->has_ticks());
    EXPECT_FALSE(spec->same_events(*spec));
    EXPECT_EQ(text_of(*spec), name);
    EXPECT_THAT(event_names(), Contains(name));
  }
}

TEST(EventSpec, RefusesAFrequencyOfABlockEventAndSaysWhatToUse) {
  for (const char* const name : {"off-cpu", "runnable"}) {
    for (const auto& [frequency_hz, period] :
         {std::pair(99u, 0u), std::pair(0u, 1'000'000u), std::pair(99u, 1'000'000u)}) {
      const Result<EventSpec> spec = make_event_spec(name, frequency_hz, period);
      ASSERT_FALSE(spec) << name;
      EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(spec.error().message,
                std::string(name) + " has no frequency: each block is measured");
      EXPECT_THAT(spec.error().hint, HasSubstr("-e wall"));
    }
  }
}

// Finds a wall session with perf events of its own, which would count each tick twice.
TEST(EventSpec, WallSharesTheTicksOfTheCpuClockOfItsFrequency) {
  const Result<EventSpec> spec = make_event_spec("wall", 499, 0);
  ASSERT_TRUE(spec);
  EXPECT_TRUE(spec->has_blocks());
  EXPECT_TRUE(spec->same_events(*make_event_spec("cpu", 499, 0)));
  EXPECT_FALSE(spec->same_events(*make_event_spec("cpu", 99, 0)));
  EXPECT_TRUE(is_default_event(*make_event_spec("wall", 0, 0)));
  EXPECT_EQ(text_of(*spec), "wall at 499 Hz");
  EXPECT_FALSE(make_event_spec("wall", 0, 1'000'000));
  EXPECT_FALSE(make_event_spec("wall", 1'000'000'000, 0));
}

TEST(EventSpec, OffersTheNearestNamesOfAnUnknownEvent) {
  const std::pair<const char*, const char*> slips[] = {{"CPU", "cpu"},
                                                       {"cycle", "cycles"},
                                                       {"page-fault", "page-faults"},
                                                       {"off-cpus", "off-cpu"},
                                                       {"cpu-clok", "cpu-clock"}};
  for (const auto& [slip, meant] : slips) {
    const Result<EventSpec> spec = make_event_spec(slip, 0, 0);
    ASSERT_FALSE(spec) << slip;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(spec.error().hint, HasSubstr(meant));
  }
  EXPECT_FALSE(make_event_spec("", 0, 0));
  EXPECT_FALSE(make_event_spec(std::string(100'000, 'x'), 0, 0));
}

}  // namespace
}  // namespace profd
