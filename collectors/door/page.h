// The memory in which a process says that it works on something, so that the daemon needs no
// message from one that hangs.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::door {

// The process writes it, the daemon reads it.
struct DoorPage {
  std::atomic<std::int64_t> busy_since_ns;  // CLOCK_MONOTONIC; 0: the process waits for events

  void set_busy();
  void set_idle() { busy_since_ns = 0; }
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// In the process; null if `file` can't be mapped.
[[nodiscard]] DoorPage* map_page(int file);

// The daemon's side of a page.
class WatchedPage {
 public:
  static Result<WatchedPage> make();

  // A memfd for the process, which can't shrink it, so reading the page is safe.
  [[nodiscard]] UniqueFd take_file() { return std::move(file_); }

  // Whether the process has worked on one event for longer than `limit`.
  [[nodiscard]] bool stands_still(std::chrono::milliseconds limit) const;

 private:
  struct Unmap {
    void operator()(const DoorPage* page) const;
  };
  using Page = std::unique_ptr<const DoorPage, Unmap>;

  WatchedPage(UniqueFd file, Page page) : file_(std::move(file)), page_(std::move(page)) {}

  UniqueFd file_;
  Page page_;
};

}  // namespace profd::door
