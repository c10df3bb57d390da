// Reading XRay's records, and making stacks of them as they come from a running app. Floors: 1 GB/s
// through the reader alone; 10 million records a second into stacks.

#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "formats/xray/fdr_reader.h"
#include "formats/xray/profile.h"
#include "formats/xray/stacks.h"
#include "tests/formats/xray/fdr_writer.h"

namespace profd::xray {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

// A thread's buffers, some 10 frames deep, one behind the other in time.
std::vector<std::string> thread_buffers(std::size_t count) {
  std::minstd_rand random(7);
  std::vector<std::uint32_t> stack;
  std::vector<std::string> buffers;
  std::uint64_t now = 1'000'000;
  Writer writer({});
  for (std::size_t i = 0; i < count; ++i) {
    writer.preamble({1, 2, 0, now, 0});
    for (std::size_t record = 0; record < kBufferBytes / 8; ++record) {
      const bool calls = stack.empty() || (stack.size() < 13 && random() % 2 == 0);
      if (calls) stack.push_back(1 + static_cast<std::uint32_t>(stack.size()) * 2 + random() % 2);
      writer.function(calls ? Action::kEnter : Action::kExit, stack.back(), 50);
      if (!calls) stack.pop_back();
      now += 50;
    }
    buffers.push_back(writer.take_records());
  }
  return buffers;
}

struct Sum : Handler {
  std::uint64_t ids = 0;
  void on_function(Action /*action*/, std::uint32_t id, std::uint64_t ticks) { ids += id ^ ticks; }
};

void BM_ReadRecords(benchmark::State& state) {
  const std::vector<std::string> buffers = thread_buffers(256);
  std::size_t bytes = 0;
  for (auto _ : state) {
    Sum sum;
    for (const std::string& buffer : buffers) {
      Position position;
      bytes += decode_records({}, buffer, position, sum).bytes;
    }
    benchmark::DoNotOptimize(sum.ids);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.SetItemsProcessed(static_cast<std::int64_t>(bytes / kFunctionBytes));
}
BENCHMARK(BM_ReadRecords)->Unit(benchmark::kMillisecond);

// With a profile at the end, as a session's end makes one.
void BM_StacksOfALiveThread(benchmark::State& state) {
  const std::vector<std::string> buffers = thread_buffers(256);
  std::size_t records = 0;
  std::size_t stacks_made = 0;
  for (auto _ : state) {
    Stacks stacks({});
    for (const std::string& buffer : buffers) stacks.add({1, 2}, buffer);
    const Measured measured = stacks.finish();
    const Profiles profiles = make_profiles(measured.tree, 1, {});
    records += measured.report.records;
    stacks_made = profiles.exclusive.records().size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(records));
  state.counters["stacks"] = static_cast<double>(stacks_made);
}
BENCHMARK(BM_StacksOfALiveThread)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd::xray

BENCHMARK_MAIN();
