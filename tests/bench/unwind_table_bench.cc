// Making the unwind rows of large libraries, and finding one. Floors: 5 million rows a second, 4.5
// bytes a row; libLLVM in 0.5 s.

#include <fcntl.h>

#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"
#include "tests/formats/unwind/find_rule.h"

namespace profd {
namespace {

// clang's is there wherever profd is built.
constexpr const char* kLargeLibrary = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1";
constexpr const char* kSmallLibrary = "/usr/lib/x86_64-linux-gnu/libc.so.6";

void BM_MakeTable(benchmark::State& state, const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::uint64_t rows = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto encoded = make_unwind_table(fd.get(), -1);
    const auto table =
        encoded ? read_unwind_table(*encoded) : Result<UnwindTableView>(encoded.error());
    if (!table) return state.SkipWithError(table.error().message.c_str());
    rows += table->header.row_count;
    bytes += encoded->size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
  state.counters["bytes_per_row"] = static_cast<double>(bytes) / static_cast<double>(rows);
  state.counters["rows"] = static_cast<double>(rows) / static_cast<double>(state.iterations());
}
BENCHMARK_CAPTURE(BM_MakeTable, libLLVM, kLargeLibrary)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_MakeTable, libc, kSmallLibrary)->Unit(benchmark::kMillisecond);

void BM_ReadSource(benchmark::State& state, const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  for (auto _ : state) {
    const auto source = read_unwind_source(fd.get(), DigestKey{{1, 2}});
    if (!source) return state.SkipWithError(source.error().message.c_str());
    benchmark::DoNotOptimize(source->digest[0]);
  }
}
BENCHMARK_CAPTURE(BM_ReadSource, libLLVM, kLargeLibrary)->Unit(benchmark::kMillisecond);

void BM_FindRule(benchmark::State& state) {
  const UniqueFd fd(::open(kLargeLibrary, O_RDONLY | O_CLOEXEC));
  const auto encoded = make_unwind_table(fd.get(), -1);
  const auto table =
      encoded ? read_unwind_table(*encoded) : Result<UnwindTableView>(encoded.error());
  if (!table) return state.SkipWithError(table.error().message.c_str());
  std::mt19937_64 random(7);  // NOLINT: the same every time
  std::vector<std::uint64_t> offsets(4096);
  for (std::uint64_t& offset : offsets) offset = 0x1000000 + random() % 0x2000000;
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(find_rule(*table, offsets[next++ % offsets.size()]));
  }
}
BENCHMARK(BM_FindRule);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
