// A report of a large result, from the packed file to the rows, and as `profctl report` in a
// process of its own. To reach: a day of a host with 100 processes, a million stacks, within 1 s
// and 200 MB; 10 minutes within 0.15 s.
//
// `peer_ms` and `peer_mb` are `go tool pprof -top` with the same file. The file is in the page
// cache.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "ctl/sources/pprof_samples.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/report.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/bench/synthetic_host.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using bench::Host;

const std::string& packed_of(std::size_t stacks) {
  static std::map<std::size_t, std::string> files;
  std::string& file = files[stacks];
  if (file.empty()) file = encode_pprof_gzip(Host(stacks, Host::day()).window(stacks));
  return file;
}

struct Cost {
  double ms = 0;
  double megabytes = 0;
  bool is_ok = false;
};

Cost cost_of(std::vector<std::string> command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return {.ms = took.count(),
          .megabytes = static_cast<double>(usage.ru_maxrss) / 1000,
          .is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

// Written by a process of its own: the peak memory of a child includes that of its parent at the
// fork.
void write_file_of(std::size_t stacks, const std::filesystem::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream(path, std::ios::binary) << packed_of(stacks);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

// The whole command, before this process is large. Arguments: stacks.
void BM_ProfctlReport(benchmark::State& state) {
  const test::ScratchDirectory scratch;
  const std::string file = scratch.path() / "day.pb.gz";
  write_file_of(static_cast<std::size_t>(state.range(0)), file);
  Cost cost;
  for (auto _ : state) {
    cost = cost_of({PROFCTL_BINARY, "report", file});
    if (!cost.is_ok) return state.SkipWithError("profctl failed");
    state.SetIterationTime(cost.ms / 1000);
  }
  state.counters["mb"] = cost.megabytes;
  const Cost peer = cost_of({GO_PPROF_BINARY, "-symbolize=none", "-top", file});
  if (!peer.is_ok) return;
  state.counters["peer_ms"] = peer.ms;
  state.counters["peer_mb"] = peer.megabytes;
}
BENCHMARK(BM_ProfctlReport)
    ->Arg(20'000)
    ->Arg(1'000'000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void BM_Report(benchmark::State& state) {
  const std::string& packed = packed_of(static_cast<std::size_t>(state.range(0)));
  std::size_t rows = 0;
  for (auto _ : state) {
    auto protobuf = unpack_pprof(packed);
    if (!protobuf) return state.SkipWithError("not unpacked");
    const auto samples = samples_of_pprof(std::move(*protobuf));
    if (!samples) return state.SkipWithError(samples.error().message.c_str());
    const Selection selection(*samples, {});
    rows = make_report(selection, {GroupKey::kFunction}, NameForm::kShort).rows.size();
  }
  state.counters["packed_bytes"] = static_cast<double>(packed.size());
  state.counters["rows"] = static_cast<double>(rows);
}
BENCHMARK(BM_Report)->Arg(20'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
