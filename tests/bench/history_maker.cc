// Fills the state directory of a daemon with a day of a host with 100 processes, for the benches in
// Python: 23 hour files, and the windows of the hour after them. Prints the seconds since 1970 at
// which the day starts and ends, and how many files of each kind it has.
//
//     history_maker STATE

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/history/window_file.h"
#include "tests/bench/made_windows.h"
#include "tests/bench/synthetic_host.h"

namespace profd::bench {
namespace {

namespace fs = std::filesystem;
using Time = std::chrono::system_clock::time_point;

constexpr int kHours = 23;
constexpr int kWindows = 60;
constexpr std::size_t kProcesses = 100;

Host::Shape with_processes(Host::Shape shape) {
  shape.processes = kProcesses;
  return shape;
}

class Day {
 public:
  Day(const fs::path& state, Time start)
      : windows_dir_(state / "windows"), hours_dir_(state / "hours"), end_(start) {
    fs::create_directories(windows_dir_);
    fs::create_directories(hours_dir_);
  }

  // The daemon takes a file for that of an hour if it has the names of its windows.
  void add_hour(PprofProfile profile) {
    WindowParts parts;
    parts.windows.reserve(kWindows);
    for (int i = 0; i < kWindows; ++i) {
      parts.windows.push_back(window_name(end_ + std::chrono::minutes(i)));
    }
    write(hours_dir_, std::move(profile), std::chrono::hours(1), std::move(parts));
  }

  void add_window(PprofProfile profile) {
    write(windows_dir_, std::move(profile), std::chrono::minutes(1), {});
  }

  [[nodiscard]] Time end() const { return end_; }

 private:
  void write(const fs::path& directory, PprofProfile profile, std::chrono::seconds lasted,
             WindowParts parts) {
    DescribedWindow window = describe(profile);
    set_times(window, end_, lasted);
    end_ += lasted;
    const std::string bytes =
        encode_window(std::move(profile), window.summary, window.record, std::move(parts));
    write_window(directory, window.summary.session, bytes).value();
  }

  fs::path windows_dir_;
  fs::path hours_dir_;
  Time end_;
};

std::int64_t seconds_of(Time time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// Whole hours of the clock, as the daemon makes their files.
void make_day(const fs::path& state) {
  const Time start = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now()) -
                     std::chrono::hours(kHours + 1);
  Day day(state, start);
  Host of_hours(Host::kStacksOfHour + 2000, with_processes(Host::hour()));
  for (int i = 0; i < kHours; ++i) day.add_hour(make_hour(of_hours));
  Host of_windows(2 * Host::kCompilingStacks, with_processes(Host::compiling()));
  for (int i = 0; i < kWindows; ++i) day.add_window(of_windows.window(Host::kCompilingStacks));
  std::cout << seconds_of(start) << " " << seconds_of(day.end()) << " " << kHours << " " << kWindows
            << "\n";
}

}  // namespace
}  // namespace profd::bench

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  profd::bench::make_day(argv[1]);
  return 0;
}
