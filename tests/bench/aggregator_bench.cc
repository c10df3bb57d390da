// User-space cost of a sample, from the record's view to the aggregated stack. Floor: 2 us.

#include <array>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "daemon/samples/aggregator.h"

namespace profd {
namespace {

constexpr std::size_t kFrames = 31;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

struct Stack {
  std::array<std::uint64_t, kFrames + 1> words;  // user frames, then one mapping id
};

std::vector<Stack> random_stacks(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<Stack> stacks(count);
  for (Stack& stack : stacks) {
    for (std::uint64_t& word : stack.words) word = 0x550000000000 + random() % 0x10000000;
  }
  return stacks;
}

SampleView view_of(const Stack& stack, std::uint32_t tgid) {
  const std::span<const std::uint64_t> words(stack.words);
  return {.process = {.tgid = tgid, .exec_id = 1, .start_ns = tgid},
          .time_ns = 1,
          .period = 10'101'010,
          .tid = tgid,
          .cpu = 0,
          .sessions = 1,
          .owner = ProcessOwner{},
          .context = PROFD_CONTEXT_USER,
          .user_end = PROFD_END_FP_ZERO,
          .kernel_truncated = false,
          .event_set = 0,
          .words = words,
          .kernel_frames = {},
          .user_frames = words.first(kFrames),
          .mapping_ids = words.subspan(kFrames)};
}

// Of `processes` processes and `distinct` stacks in all, met at random: caches as cold as they are
// in service.
void BM_AggregateSample(benchmark::State& state) {
  const std::vector<Stack> stacks = random_stacks(static_cast<std::size_t>(state.range(0)));
  const auto processes = static_cast<std::uint32_t>(state.range(1));
  Aggregator aggregator;
  aggregator.open(0, kNoLimit);
  std::mt19937 random(11);
  for (auto _ : state) {
    const std::size_t n = random() % stacks.size();
    aggregator.on_sample(view_of(stacks[n], static_cast<std::uint32_t>(n) % processes + 1));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_AggregateSample)->Args({100, 1})->Args({10'000, 100})->Args({1'000'000, 1000});

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
