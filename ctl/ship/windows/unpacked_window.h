// The window that an endpoint sends, and the memory for those of all endpoints.
//
// With its tables, an unpacked window has three times its size, and ship is to stay below 32 MB
// with usual windows. So the unpacked windows of all endpoints have a limit together. An endpoint
// has its window as a file, of some 100 kB, and unpacked while it encodes a profile. While it sends
// that or waits, its unpacked window stays only as long as no other endpoint needs the memory; then
// it is unpacked again for the next profile. So an endpoint that is slow delays no other: what
// others wait for takes CPU time alone.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "ctl/ship/windows/window_split.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_refusal.h"

namespace profd {

class UnpackedWindow;

// Shared by the threads of all endpoints. Lives longer than the windows.
class WindowMemory {
 public:
  // Of one window, which takes 48 MiB with its tables. One minute of a busy host is 2 MB, and 19 Hz
  // on 64 busy CPUs some 5 MB. What users may have of a window is 8 MiB in all
  // (daemon/history/user_shares.h).
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  // Of all together, where no single one has more.
  static constexpr std::size_t kMaxTogether = std::size_t{4} << 20;

  // A larger window than `limit` is unpacked where no other one is.
  explicit WindowMemory(std::size_t limit = kMaxTogether) : limit_(limit) {}
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;
  ~WindowMemory() = default;

  // Of the windows that are unpacked now.
  [[nodiscard]] std::size_t used() const;

 private:
  friend class UnpackedWindow;

  // For a window of this size beside others.
  [[nodiscard]] bool has_room(std::size_t others_bytes, std::size_t bytes) const {
    return others_bytes == 0 || others_bytes + bytes <= limit_;
  }

  std::size_t limit_;
  mutable std::mutex mutex_;  // of the following, and of the contents of idle windows
  std::condition_variable has_changed_;
  std::size_t used_ = 0;
  std::list<UnpackedWindow*> idle_;  // unpacked and not in use; the longest idle first
};

struct WindowTime {
  std::chrono::sys_time<std::chrono::nanoseconds> start;
  std::chrono::nanoseconds length{};
};

// Used by one thread.
class UnpackedWindow {
 public:
  // Deeper stacks than `max_depth` lose their outermost frames (stack_depth.h).
  explicit UnpackedWindow(WindowMemory& memory,
                          std::size_t max_depth = std::numeric_limits<std::size_t>::max());
  UnpackedWindow(const UnpackedWindow&) = delete;
  UnpackedWindow& operator=(const UnpackedWindow&) = delete;
  ~UnpackedWindow();

  // The file of a window, instead of the former one. kTooLarge: over kMaxBytes. After an error it
  // is closed.
  [[nodiscard]] PprofResult<WindowTime> open(std::string file);
  void close();

  // As the functions of window_split.h. Each may wait until others have encoded a profile, or
  // unpacked a window. Of an open window, there is no error.
  [[nodiscard]] PprofResult<WindowParts> split(const SplitOptions& options);
  [[nodiscard]] PprofResult<PprofProfile> profile_of(const ServicePart& part, ThreadLabels threads);

 private:
  struct Contents;
  class Use;

  // Makes sure that it is unpacked and that no other thread takes its memory, until release().
  [[nodiscard]] PprofResult<void> acquire();
  void release();
  void take_memory();
  [[nodiscard]] PprofResult<std::unique_ptr<Contents>> unpack() const;
  // With the lock of the memory: of all windows but the idle ones.
  [[nodiscard]] std::size_t bytes_in_use() const;
  void drop_contents();  // with the lock of the memory

  WindowMemory& memory_;
  std::size_t max_depth_;
  std::string file_;
  std::size_t size_ = 0;                // unpacked, as the file states it
  std::unique_ptr<Contents> contents_;  // null: not unpacked
};

}  // namespace profd
