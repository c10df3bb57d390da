#include "collectors/sampling/event_spec.h"

#include <linux/perf_event.h>

#include <algorithm>

#include <gmock/gmock.h>

namespace profd {
namespace {

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
  for (const std::string_view name : event_names()) {
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

TEST(EventSpec, OffersTheNearestNamesOfAnUnknownEvent) {
  const std::pair<const char*, const char*> slips[] = {{"CPU", "cpu"},
                                                       {"cycle", "cycles"},
                                                       {"page-fault", "page-faults"},
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
