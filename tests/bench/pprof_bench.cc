// Encoding, decoding and merging profile.proto. To reach: 5,000 stacks encoded and packed within
// 40 ms of CPU, 2 MB read within 10 ms, an hour merged of 60 windows within 0.7 s, a day of 24
// hours within 0.6 s.

#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_order.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/bench/synthetic_host.h"

namespace profd {
namespace {

using bench::Host;

PprofProfile window_of(std::size_t stacks) { return Host(stacks * 2, {}).window(stacks); }

void BM_OrderPprof(benchmark::State& state) {
  const PprofProfile profile = window_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(order_pprof(profile));
}
BENCHMARK(BM_OrderPprof)->Arg(5000)->Unit(benchmark::kMillisecond);

// Arguments: stacks, gzip level (0: not packed).
void BM_EncodePprof(benchmark::State& state) {
  const PprofProfile profile = window_of(static_cast<std::size_t>(state.range(0)));
  const auto level = static_cast<int>(state.range(1));
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::string file = encode_pprof(profile);
    bytes = level == 0 ? file.size() : pack_gzip(file, level).size();
  }
  const auto samples = static_cast<double>(profile.samples().size());
  state.counters["bytes_a_stack"] = static_cast<double>(bytes) / samples;
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["locations"] = static_cast<double>(profile.locations().size());
}
BENCHMARK(BM_EncodePprof)
    ->Args({2000, 6})
    ->Args({5000, 0})
    ->Args({5000, 1})
    ->Args({5000, 3})
    ->Args({5000, 6})
    ->Args({5000, 9})
    ->Unit(benchmark::kMillisecond);

void BM_UnpackPprof(benchmark::State& state) {
  const std::string file = encode_pprof_gzip(window_of(static_cast<std::size_t>(state.range(0))));
  std::size_t bytes = 0;
  for (auto _ : state) bytes += unpack_pprof(file)->size();
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(BM_UnpackPprof)->Arg(5000)->Unit(benchmark::kMillisecond);

void BM_ReadPprofTables(benchmark::State& state) {
  const std::string file = encode_pprof_gzip(window_of(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) {
    const auto protobuf = unpack_pprof(file);
    benchmark::DoNotOptimize(read_pprof_tables(*protobuf));
  }
}
BENCHMARK(BM_ReadPprofTables)->Arg(5000)->Unit(benchmark::kMillisecond);

void BM_DecodePprof(benchmark::State& state) {
  const std::string file = encode_pprof_gzip(window_of(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(decode_pprof(file));
}
BENCHMARK(BM_DecodePprof)->Arg(5000)->Unit(benchmark::kMillisecond);

void merge_files(benchmark::State& state, const std::vector<std::string>& files) {
  std::size_t samples = 0;
  for (auto _ : state) {
    PprofMerge merge({.drop_addresses = true});
    for (const std::string& file : files) {
      const auto protobuf = unpack_pprof(file);
      if (!merge.add(*read_pprof_tables(*protobuf))) state.SkipWithError("not merged");
    }
    samples = merge.profile().samples().size();
  }
  state.counters["file_bytes"] = static_cast<double>(files.front().size());
  state.counters["stacks"] = static_cast<double>(samples);
}

// An hour of windows of 2,000 stacks, of which half recur.
void BM_MergeHour(benchmark::State& state) {
  Host host(4000, {});
  std::vector<std::string> files;
  for (int i = 0; i < 60; ++i) files.push_back(encode_pprof_gzip(host.window(2000)));
  merge_files(state, files);
}
BENCHMARK(BM_MergeHour)->Unit(benchmark::kMillisecond);

// A day of hour files of 23,000 stacks, 26 frames deep in the mean.
void BM_MergeDay(benchmark::State& state) {
  Host host(25000, {.locations = 9600, .min_depth = 13, .depths = 27});
  std::vector<std::string> files;
  for (int i = 0; i < 24; ++i) {
    PprofMerge hour({.drop_addresses = true});
    const std::string window = encode_pprof(host.window(23000));
    if (!hour.add(*read_pprof_tables(window))) state.SkipWithError("not merged");
    files.push_back(encode_pprof_gzip(hour.profile()));
  }
  merge_files(state, files);
}
BENCHMARK(BM_MergeDay)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
