// The unwind rows of the largest code map, 262,144 functions of one row each: what the io thread
// does with them in one turn. Share, Install, Forget and Destroy are such turns, of 10 ms at most;
// Set is the time for one function, of which a turn has 512. Encode is for the table loader.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "collectors/jit/code_rows.h"
#include "collectors/unwinding/tables.h"
#include "tests/collectors/unwinding/fake_table_maps.h"

namespace profd {
namespace {

constexpr std::size_t kFunctions = JitCodeRows::kMaxRows;
constexpr std::uint64_t kArea = 0x7f00;
constexpr std::uint64_t kStart = kArea << 32;

// Every function has another rule than the one before, and some need the dictionary.
JitUnwindRows function_at(std::uint64_t place, std::uint64_t distance) {
  profd_rule rule{};
  rule.kind = PROFD_RULE_REGISTER;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.ra_saved = PROFD_SAVED_AT_CFA;
  rule.ra_offset = -8;
  rule.cfa_offset = static_cast<std::int32_t>(place % 4000);
  const std::uint64_t start = kStart + place * distance;
  return {.start = start, .end = start + 32, .rows = {{.offset = start, .rule = rule}}};
}

// In the order in which a hash would give them: not sorted by address.
std::uint64_t place_of(std::uint64_t number) { return number * 40'503 % kFunctions; }

JitCodeRows make_rows(std::uint64_t distance,
                      const std::shared_ptr<JitForgottenRows>& forgotten = nullptr) {
  JitCodeRows rows(forgotten);
  for (std::uint64_t i = 0; i < kFunctions; ++i) rows.set(function_at(place_of(i), distance));
  return rows;
}

void BM_ShareRows(benchmark::State& state) {
  JitCodeRows rows = make_rows(64);
  for (auto _ : state) {
    auto shared = std::make_unique<JitCodeRows>(rows.share());
    benchmark::DoNotOptimize(shared);
    state.PauseTiming();
    shared.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_ShareRows)->Unit(benchmark::kMillisecond);

// 1: after each 512 functions the rows are shared, so each block is copied again.
void BM_SetRows(benchmark::State& state) {
  JitCodeRows rows = make_rows(64);
  const bool with_sharing = state.range(0) != 0;
  std::unique_ptr<JitCodeRows> shared;
  std::uint64_t number = 0;
  for (auto _ : state) {
    if (with_sharing && number % 512 == 0) {
      state.PauseTiming();
      shared = std::make_unique<JitCodeRows>(rows.share());
      state.ResumeTiming();
    }
    rows.set(function_at(place_of(number++ % kFunctions), 64));
  }
}
BENCHMARK(BM_SetRows)->Arg(0)->Arg(1);

void BM_ForgetRows(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    const auto forgotten = std::make_shared<JitForgottenRows>();
    JitCodeRows rows = make_rows(64, forgotten);
    state.ResumeTiming();
    rows.erase(0, UINT64_MAX);
    state.PauseTiming();
    while (!forgotten->destroy_some()) {
    }
    state.ResumeTiming();
  }
}
BENCHMARK(BM_ForgetRows)->Unit(benchmark::kMillisecond)->Iterations(10);

// One part of them.
void BM_DestroyRows(benchmark::State& state) {
  auto forgotten = std::make_shared<JitForgottenRows>();
  for (auto _ : state) {
    if (!forgotten->destroy_some()) continue;
    state.PauseTiming();
    make_rows(64, forgotten).erase(0, UINT64_MAX);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_DestroyRows)->Unit(benchmark::kMillisecond)->Iterations(500);

void BM_EncodeRows(benchmark::State& state) {
  JitCodeRows rows = make_rows(static_cast<std::uint64_t>(state.range(0)));
  JitRowsOfProcess process;
  process.add_layer(rows.share());
  std::size_t bytes = 0;
  for (auto _ : state) bytes = process.encode(kArea)->size();
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(BM_EncodeRows)->Arg(64)->Arg(16'383)->Unit(benchmark::kMillisecond);

// In place of an earlier one. The functions lie close together, or so that nearly each needs a
// bucket.
void BM_InstallRows(benchmark::State& state) {
  JitCodeRows rows = make_rows(static_cast<std::uint64_t>(state.range(0)));
  const std::string encoded = rows.encode(kArea).value();
  const UnwindTableView table = read_unwind_table(encoded).value();
  test::FakeMapsState maps(PROFD_ARENA_WORDS);
  UnwindTables tables(std::make_unique<test::FakeTableMaps>(maps), {});
  const MappedCode code{.key = {.inode = PROFD_JIT_CODE_INODE}, .payer = 1000, .regions = {}};
  for (auto _ : state) {
    if (tables.replace(code, "jit", table)) return state.SkipWithError("there is no room");
  }
  state.counters["MB"] = static_cast<double>(encoded.size()) / 1e6;
}
BENCHMARK(BM_InstallRows)->Arg(64)->Arg(16'383)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
