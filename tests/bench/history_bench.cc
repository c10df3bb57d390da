// An export of a thousand windows of a hundred processes, as the worker makes it: reading, merging,
// writing. Limit: 2 s. The files are in the page cache; a window takes about 300 KB on the disk.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "daemon/history/export.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/daemon/local_parser.h"

namespace profd {
namespace {

constexpr int kProcesses = 100;
constexpr std::uint64_t kText = 0x555500000000;
constexpr std::uint64_t kLibraries = 0x7f0000000000;

// What a busy host of two CPUs gives one of a hundred processes in a minute at 19 Hz: 23 samples of
// 12 of its 60 stacks, 22 frames deep, in ten mappings.
test::FabricatedProfile random_process(std::uint32_t pid,
                                       const std::vector<ProfileMapping>& mappings,
                                       std::mt19937_64& random) {
  std::vector<std::pair<std::vector<std::uint64_t>, std::uint64_t>> stacks;
  for (int i = 0; i < 12; ++i) {
    std::mt19937_64 stack(pid * 1000 + random() % 60);
    std::vector<std::uint64_t> pcs(22);
    for (std::uint64_t& pc : pcs) pc = mappings[stack() % mappings.size()].start + stack() % 0x1000;
    stacks.emplace_back(std::move(pcs), 1 + random() % 3);
  }
  return {.pid = pid,
          .comm = "process" + std::to_string(pid),
          .owner = std::nullopt,
          .cgroup = "/system.slice/service" + std::to_string(pid) + ".service",
          .profile = test::profile_of(mappings, stacks)};
}

struct Windows {
  test::FabricatedWindows files;
  std::vector<std::string> names;
};

std::unique_ptr<Windows> fabricate(std::int64_t count) {
  auto windows = std::make_unique<Windows>();
  std::mt19937_64 random(7);  // NOLINT: the same every time
  std::vector<ProfileMapping> mappings;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::uint64_t start = i == 0 ? kText : kLibraries + i * 0x1000000;
    mappings.push_back(windows->files.add_object("object" + std::to_string(i) + ".so",
                                                 {"a", "b", "c", "d", "e"}, start));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<test::FabricatedProfile> processes;
    for (std::uint32_t pid = 1; pid <= kProcesses; ++pid) {
      processes.push_back(random_process(pid, mappings, random));
    }
    const auto start = std::chrono::system_clock::time_point() + i * std::chrono::minutes(1);
    windows->names.push_back(windows->files.add(start, processes));
  }
  std::filesystem::create_directories(windows->files.state() / "results");
  return windows;
}

void BM_Export(benchmark::State& state) {
  const auto windows = fabricate(state.range(0));
  test::LocalParser parser;
  std::uint64_t samples = 0;
  int number = 0;
  for (auto _ : state) {
    ExportPlan plan;
    plan.windows_dir = windows->files.state() / "windows";
    plan.objects_dir = windows->files.objects();
    plan.results_dir = windows->files.state() / "results";
    plan.windows = windows->names;
    plan.caller.privileged = true;
    plan.max_bytes = std::uint64_t{1} << 30;
    plan.result.info.result = "history-dump-" + std::to_string(++number);
    HistoryExport whole(std::move(plan));
    for (Result<bool> done = false; !*done;) {
      done = whole.advance(parser, std::chrono::milliseconds(10));
      if (!done) return state.SkipWithError(done.error().message.c_str());
    }
    samples = whole.take().info.summary.ledger.written;
  }
  state.counters["samples"] = static_cast<double>(samples);
}
BENCHMARK(BM_Export)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
