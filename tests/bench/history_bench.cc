// Hour files and exports as the workers make them: reading and merging files of windows and hours,
// writing a directory and a profile with names, or the profile alone. To reach: an hour file within
// 0.8 s of CPU, the export of an hour of windows within 0.7 s, of a day of hours and windows within
// 0.6 s. The files are in the page cache.
//
// With HISTORY_WINDOWS=DIRECTORY the windows are those that a daemon left there, as many times one
// after the other as the hour takes. HISTORY_HOUR_BYTES limits the size of an hour file, and
// HISTORY_HOUR_WINDOWS is how many windows the hour of BM_MakeHour has. `longest_turn_ms` is the
// time for which other work of the worker waits. `peer_ms` is `go tool pprof -proto` with the same
// files.

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "daemon/history/export.h"
#include "daemon/history/hour_file.h"
#include "daemon/history/window_file.h"
#include "daemon/storage/file_io.h"
#include "formats/profile/pprof_merge.h"
#include "tests/bench/made_windows.h"
#include "tests/bench/synthetic_host.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using bench::Host;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kWindows = 60;
constexpr int kHours = 23;
constexpr auto kTurn = std::chrono::milliseconds(10);

int windows_of_hour() {
  const char* const count = std::getenv("HISTORY_HOUR_WINDOWS");
  return count == nullptr ? kWindows : std::stoi(count);
}

class Files {
 public:
  Files() {
    fs::create_directories(results());
    fs::create_directories(hours());
  }

  void add(PprofProfile profile, std::chrono::seconds lasted) {
    bench::DescribedWindow window = bench::describe(profile);
    write(std::move(profile), std::move(window), lasted);
  }

  // A window that a daemon left, at another time.
  void add_copy(const fs::path& directory, const std::string& name) {
    const WindowFile window = WindowFile::open(directory, name).value();
    const PprofTables tables = window.tables().value();
    write(profile_of(tables), {window.summary(), window.record()}, std::chrono::minutes(1));
  }

  // Makes an hour file of the windows from the `first` one on, and has it instead of them.
  void replace_by_hour(std::size_t first) {
    const HourPlan plan = plan_from(first);
    HourMaker maker(plan);
    while (!maker.advance(kTurn).value()) {
    }
    files_.resize(first);
    files_.push_back({hours(), plan.name});
    bytes_ += fs::file_size(hours() + "/" + plan.name + std::string(kWindowFileEnd));
  }

  [[nodiscard]] HourPlan plan_from(std::size_t first) const {
    HourPlan plan{.windows_dir = scratch_.path(), .hours_dir = hours(), .name = {}, .start = {}};
    for (std::size_t i = first; i < files_.size(); ++i) plan.windows.push_back(files_[i].name);
    plan.name = plan.windows.front();
    if (const char* limit = std::getenv("HISTORY_HOUR_BYTES")) plan.max_bytes = std::stoull(limit);
    return plan;
  }

  [[nodiscard]] std::string results() const { return scratch_.path() / "results"; }
  [[nodiscard]] std::string hours() const { return scratch_.path() / "hours"; }
  [[nodiscard]] const std::vector<HistoryFile>& all() const { return files_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void write(PprofProfile profile, bench::DescribedWindow window, std::chrono::seconds lasted) {
    bench::set_times(window, end_, lasted);
    end_ += lasted;
    const std::string bytes = encode_window(std::move(profile), window.summary, window.record);
    bytes_ += bytes.size();
    write_window(scratch_.path(), window.summary.session, bytes).value();
    files_.push_back({scratch_.path(), window.summary.session});
  }

  test::ScratchDirectory scratch_;
  std::vector<HistoryFile> files_;
  std::chrono::system_clock::time_point end_{std::chrono::hours(24)};
  std::size_t bytes_ = 0;
};

// The windows of a host that compiles.
class Windows {
 public:
  Windows() {
    const char* const directory = std::getenv("HISTORY_WINDOWS");
    if (directory == nullptr) return;
    directory_ = directory;
    for (const std::string& file : list_directory(directory).value()) {
      const auto end = file.size() - std::min(file.size(), kWindowFileEnd.size());
      if (is_window_name(file.substr(0, end))) names_.push_back(file.substr(0, end));
    }
  }

  void add_next_to(Files& files) {
    if (names_.empty()) {
      files.add(host_.window(Host::kCompilingStacks), std::chrono::minutes(1));
    } else {
      files.add_copy(directory_, names_[next_++ % names_.size()]);
    }
  }

 private:
  Host host_{2 * Host::kCompilingStacks, Host::compiling()};
  fs::path directory_;
  std::vector<std::string> names_;
  std::size_t next_ = 0;
};

double cpu_ms_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// CPU time; none where Go is not there.
void measure_peer(benchmark::State& state, const Files& files) {
  std::string command = "go tool pprof -symbolize=none -proto -output=" + files.results() + "/peer";
  for (const HistoryFile& file : files.all()) {
    command += " " + file.directory + "/" + file.name + std::string(kWindowFileEnd);
  }
  const double before = cpu_ms_of_children();
  // NOLINTNEXTLINE(*-env33-c): the shell finds the program
  if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) return;
  state.counters["peer_ms"] = cpu_ms_of_children() - before;
}

// Runs a job of a worker in turns, and returns the longest in milliseconds.
template <class Job>
double run_in_turns(benchmark::State& state, Job& job) {
  Milliseconds longest{};
  for (Result<bool> done = false; !*done;) {
    const auto start = std::chrono::steady_clock::now();
    done = job.advance(kTurn);
    longest = std::max<Milliseconds>(longest, std::chrono::steady_clock::now() - start);
    if (!done) {
      state.SkipWithError(done.error().message.c_str());
      break;
    }
  }
  return longest.count();
}

enum class Form { kDirectory, kOneFile };

void run_exports(benchmark::State& state, const Files& files, Form form) {
  SessionSummary summary;
  double longest_ms = 0;
  int number = 0;
  for (auto _ : state) {
    ExportPlan plan;
    plan.results_dir = files.results();
    plan.files = files.all();
    plan.caller.privileged = true;
    plan.profile_only = form == Form::kOneFile;
    plan.max_bytes = std::uint64_t{1} << 30;
    plan.result.info.result = "history-dump-" + std::to_string(++number);
    HistoryExport whole(std::move(plan));
    longest_ms = std::max(longest_ms, run_in_turns(state, whole));
    summary = whole.take().info.summary;
  }
  if (summary.ledger.difference() != 0) state.SkipWithError("samples are missing");
  state.counters["samples"] = static_cast<double>(summary.ledger.written);
  state.counters["profiles"] = static_cast<double>(summary.profiles.size());
  state.counters["read_bytes"] = static_cast<double>(files.bytes());
  state.counters["longest_turn_ms"] = longest_ms;
}

void BM_MakeHour(benchmark::State& state) {
  Windows windows;
  Files files;
  for (int i = 0; i < windows_of_hour(); ++i) windows.add_next_to(files);
  HourInfo made;
  double longest_ms = 0;
  for (auto _ : state) {
    HourMaker maker(files.plan_from(0));
    longest_ms = std::max(longest_ms, run_in_turns(state, maker));
    made = maker.take();
    state.PauseTiming();
    fs::remove(files.hours() + "/" + made.name + std::string(kWindowFileEnd));
    state.ResumeTiming();
  }
  state.counters["read_bytes"] = static_cast<double>(files.bytes());
  state.counters["disk_bytes"] = static_cast<double>(made.disk_bytes);
  state.counters["longest_turn_ms"] = longest_ms;
  measure_peer(state, files);
}
BENCHMARK(BM_MakeHour)->Unit(benchmark::kMillisecond);

void BM_ExportHour(benchmark::State& state, Form form) {
  Windows windows;
  Files files;
  for (int i = 0; i < kWindows; ++i) windows.add_next_to(files);
  run_exports(state, files, form);
  measure_peer(state, files);
}
BENCHMARK_CAPTURE(BM_ExportHour, directory, Form::kDirectory)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ExportHour, one_file, Form::kOneFile)->Unit(benchmark::kMillisecond);

// A day that begins and ends within an hour: 23 hour files of 23,000 stacks each, and 60 windows.
void BM_ExportDay(benchmark::State& state, Form form) {
  Host host(25000, Host::hour());
  Windows windows;
  Files files;
  for (int i = 0; i < kHours; ++i) files.add(bench::make_hour(host), std::chrono::hours(1));
  for (int i = 0; i < kWindows; ++i) windows.add_next_to(files);
  run_exports(state, files, form);
  measure_peer(state, files);
}
BENCHMARK_CAPTURE(BM_ExportDay, directory, Form::kDirectory)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ExportDay, one_file, Form::kOneFile)->Unit(benchmark::kMillisecond);

// The same of hour files that were made of the windows; their number of stacks is the windows'.
void BM_ExportDayOfMadeHours(benchmark::State& state) {
  Windows windows;
  Files files;
  for (std::size_t hour = 0; hour < kHours; ++hour) {
    for (int i = 0; i < kWindows; ++i) windows.add_next_to(files);
    files.replace_by_hour(hour);
  }
  for (int i = 0; i < kWindows; ++i) windows.add_next_to(files);
  run_exports(state, files, Form::kOneFile);
}
BENCHMARK(BM_ExportDayOfMadeHours)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace profd

BENCHMARK_MAIN();
