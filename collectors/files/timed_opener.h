// Opens files on threads of its own, and waits for each only so long.
//
// An open through /proc/PID/map_files takes the lock of the process's memory, which the process can
// hold for half a second and more (fork or munmap of much memory), and nothing ends the wait. The
// io thread must not: it gives the open to a thread and goes on without the file when the thread is
// late. A thread that is late is not used until it is back; when all are, opens fail at once. So do
// those of a user but root for whom one is late: a file system of his own making may hang for ever.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collectors/files/mapped_file.h"

namespace profd {

class TimedOpener {
 public:
  static constexpr std::size_t kMaxThreads = 4;
  // An open takes 20 us; on a busy host the thread may have to wait for a CPU.
  static constexpr std::chrono::milliseconds kMaxWait{50};

  TimedOpener() = default;
  TimedOpener(const TimedOpener&) = delete;
  TimedOpener& operator=(const TimedOpener&) = delete;
  // Threads that are late end by themselves.
  ~TimedOpener();

  // What `open` returns, or nothing where it takes longer than kMaxWait, or all threads are late,
  // or one is for this user. `open` must own all that it needs: it may run on after this has
  // returned.
  [[nodiscard]] std::optional<MappedFile> run(std::function<MappedFile()> open,
                                              std::uint32_t uid = 0);

 private:
  class Lane;
  Lane* free_lane(std::uint32_t uid);

  std::vector<std::shared_ptr<Lane>> lanes_;
};

}  // namespace profd
