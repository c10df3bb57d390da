#include "collectors/sampling/perf_events.h"

#include <gtest/gtest.h>

#include "collectors/host/cycle_rate.h"

namespace profd {
namespace {

struct CpuList {
  const char* text;
  std::vector<unsigned> cpus;
};

class CpuListTest : public testing::TestWithParam<CpuList> {};

TEST_P(CpuListTest, IsReadAsTheKernelWritesIt) {
  EXPECT_EQ(parse_cpu_list(GetParam().text), GetParam().cpus);
}

// Documentation/admin-guide/kernel-parameters.rst, "cpu lists", and what is no list.
INSTANTIATE_TEST_SUITE_P(PerfEventsTest, CpuListTest,
                         testing::Values(CpuList{"0", {0}}, CpuList{"0-3", {0, 1, 2, 3}},
                                         CpuList{"0-1,4,6-7", {0, 1, 4, 6, 7}}, CpuList{"", {}},
                                         CpuList{"x", {}}, CpuList{"1,x,3", {1, 3}},
                                         CpuList{"3-1", {}}, CpuList{",,2", {2}},
                                         CpuList{"0-4294967295", {}}));

TEST(CycleRateTest, IsPlausibleWhereCyclesCanBeCounted) {
  const auto rate = measure_cycles_per_second();
  if (!rate) {
    EXPECT_EQ(rate.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(rate.error().message, "this host has no hardware counter (PMU) for cycles");
    return;
  }
  EXPECT_GT(*rate, 100'000'000U);
  EXPECT_LT(*rate, 20'000'000'000U);
}

}  // namespace
}  // namespace profd
