// Exports as the worker makes them: reading and merging files of windows and hours, writing a
// directory and a profile with names. To reach: an hour of windows within 0.7 s of CPU, a day of
// hours within 0.6 s. The files are in the page cache.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "daemon/history/export.h"
#include "daemon/history/window_file.h"
#include "formats/base/time_text.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/bench/synthetic_host.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using bench::Host;

class Files {
 public:
  Files() { std::filesystem::create_directories(results()); }

  void add(PprofProfile profile, std::chrono::seconds lasted) {
    SessionSummary summary;
    WindowRecord record;
    record.start = end_;
    record.end = end_ += lasted;
    summary.session = window_name(record.start);
    summary.started = utc_text(record.start);
    summary.seconds = static_cast<double>(lasted.count());
    summary.event = "cpu";
    summary.period_us = bench::kPeriodNs / 1000;
    for (std::uint32_t set = 0; set < profile.labels_count(); ++set) {
      record.profiles.emplace_back().labels = labels_of(profile, set);
      summary.profiles.emplace_back();
      summary.profiles.back().pid = record.profiles.back().labels.pid;
      summary.profiles.back().comm = record.profiles.back().labels.comm;
    }
    for (std::size_t i = 0; i < profile.samples().size(); ++i) {
      const auto samples = static_cast<std::uint64_t>(profile.values(i)[0]);
      summary.profiles[profile.samples()[i].labels].samples += samples;
      summary.ledger.taken += samples;
    }
    const std::string bytes = encode_window(std::move(profile), summary, record);
    bytes_ += bytes.size();
    write_window(scratch_.path(), summary.session, bytes).value();
    files_.push_back({scratch_.path(), summary.session});
  }

  [[nodiscard]] std::string results() const { return scratch_.path() / "results"; }
  [[nodiscard]] const std::vector<HistoryFile>& all() const { return files_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  test::ScratchDirectory scratch_;
  std::vector<HistoryFile> files_;
  std::chrono::system_clock::time_point end_{std::chrono::hours(24)};
  std::size_t bytes_ = 0;
};

void run_exports(benchmark::State& state, const Files& files) {
  SessionSummary summary;
  double longest_ms = 0;
  int number = 0;
  for (auto _ : state) {
    ExportPlan plan;
    plan.results_dir = files.results();
    plan.files = files.all();
    plan.caller.privileged = true;
    plan.max_bytes = std::uint64_t{1} << 30;
    plan.result.info.result = "history-dump-" + std::to_string(++number);
    HistoryExport whole(std::move(plan));
    for (Result<bool> done = false; !*done;) {
      const auto start = std::chrono::steady_clock::now();
      done = whole.advance(std::chrono::milliseconds(10));
      if (!done) return state.SkipWithError(done.error().message.c_str());
      const std::chrono::duration<double, std::milli> turn =
          std::chrono::steady_clock::now() - start;
      longest_ms = std::max(longest_ms, turn.count());
    }
    summary = whole.take().info.summary;
  }
  if (summary.ledger.difference() != 0) state.SkipWithError("samples are missing");
  state.counters["samples"] = static_cast<double>(summary.ledger.written);
  state.counters["profiles"] = static_cast<double>(summary.profiles.size());
  state.counters["read_bytes"] = static_cast<double>(files.bytes());
  state.counters["longest_turn_ms"] = longest_ms;
}

// An hour of windows of 2,000 stacks, of which half recur.
void BM_ExportHour(benchmark::State& state) {
  Host host(4000, {});
  Files files;
  for (int i = 0; i < 60; ++i) files.add(host.window(2000), std::chrono::minutes(1));
  run_exports(state, files);
}
BENCHMARK(BM_ExportHour)->Unit(benchmark::kMillisecond);

// A day of hour files of 23,000 stacks.
void BM_ExportDay(benchmark::State& state) {
  Host host(25000, {.locations = 9600, .min_depth = 13, .depths = 27});
  Files files;
  for (int i = 0; i < 24; ++i) {
    PprofMerge hour({.drop_addresses = true});
    const std::string window = encode_pprof(host.window(23000));
    if (!hour.add(*read_pprof_tables(window))) state.SkipWithError("not merged");
    files.add(std::move(hour).take(), std::chrono::hours(1));
  }
  run_exports(state, files);
}
BENCHMARK(BM_ExportDay)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
