// Who used the CPU in windows: the processes, and the groups that they belong to. A group is a
// service, or, of processes outside of services, those with one command name: a service of many
// short processes, or a compile, is one line and not hundreds.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/history/view.h"
#include "formats/api/history_api.h"

namespace profd {

// Adds up windows. Any thread.
class SharesSum {
 public:
  void add(const WindowView& view);
  [[nodiscard]] bool empty() const { return shares_.window.empty(); }

  // The name and the start of the first window, and as many processes and groups, those with most
  // CPU time. `seconds` is the time that the windows cover.
  [[nodiscard]] WindowShares take(std::size_t processes, std::size_t groups) &&;

 private:
  // A process has a sum for each name that it had. Those without a pid stand for several processes,
  // so they differ by their unit and container only.
  struct Key {
    std::uint32_t pid = 0;
    std::uint64_t start_time_ns = 0;
    std::string comm;
    std::optional<std::string> unit;
    std::optional<std::string> container;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Sum {
    ProfileSummary summary;
    double cpu_us = 0;
  };

  WindowShares shares_;
  std::map<Key, Sum> sums_;
};

// Of one window.
[[nodiscard]] WindowShares shares_of(const WindowView& view, std::size_t processes,
                                     std::size_t groups);

}  // namespace profd
