// Closes descriptors that somebody else has filled, on a thread of its own.
//
// A socket's queue may hold descriptors that were sent to us and never received. Closing the socket
// closes those too, and the last close of a TCP socket that lingers, or of a file of a file system
// in user space, can take as long as its owner likes. The io thread must not wait for that. One
// such descriptor at a time can hold the thread up; the others wait behind it, and those who sent
// them can tell no difference.

#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd {

class BackgroundCloser {
 public:
  BackgroundCloser();
  BackgroundCloser(const BackgroundCloser&) = delete;
  BackgroundCloser& operator=(const BackgroundCloser&) = delete;
  // Does not wait: what is not closed by then, the thread closes before it ends.
  ~BackgroundCloser();

  void close(UniqueFd descriptor);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<UniqueFd> waiting;
    bool over = false;
  };
  static void run(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // the thread's too
};

}  // namespace profd
