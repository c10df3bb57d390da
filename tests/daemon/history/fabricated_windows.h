// A state directory with windows that a test writes instead of the daemon.

#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/history/hour_file.h"
#include "daemon/history/store.h"
#include "formats/api/session_summary.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/formats/readers.h"

namespace profd::test {

class FabricatedWindows {
 public:
  using Time = std::chrono::system_clock::time_point;

  FabricatedWindows() {
    std::filesystem::create_directories(windows());
    std::filesystem::create_directories(hours());
  }

  [[nodiscard]] std::filesystem::path state() const { return scratch_.path(); }
  [[nodiscard]] std::filesystem::path windows() const { return state() / "windows"; }
  [[nodiscard]] std::filesystem::path hours() const { return state() / "hours"; }
  [[nodiscard]] WindowStore open() const { return WindowStore::open(state()).value(); }

  // The hour file of windows, which stay. Returns its name.
  std::string add_hour(Time hour, const std::vector<std::string>& names,
                       const std::string& suffix = "") const {
    HourMaker maker({.windows_dir = windows(),
                     .hours_dir = hours(),
                     .name = window_name(hour) + suffix,
                     .start = hour,
                     .windows = names});
    while (!maker.advance(std::chrono::seconds(1)).value()) {
    }
    return maker.take().name;
  }

  void remove(const std::string& window) const {
    std::filesystem::remove(windows() / (window + std::string(kWindowFileEnd)));
  }

  // A window of a minute. Returns its name.
  std::string add(Time start, const std::vector<NamedProcess>& processes,
                  const CountsByReason& lost = {}) const {
    NamedWindow window(start);
    for (const NamedProcess& process : processes) window.add(process);
    return window.lose(lost).write(windows());
  }

 private:
  ScratchDirectory scratch_;
};

}  // namespace profd::test
