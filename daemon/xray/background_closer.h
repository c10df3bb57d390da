// Closes descriptors of other processes' making on a thread of its own, since close() may block.
//
// The queue of a socket may hold descriptors that its peer sent and profd never received. Closing
// the socket closes them too, and the last close of a lingering TCP socket, or of a file in a FUSE
// file system, takes as long as its owner likes. One such descriptor blocks the thread, and the
// others wait behind it; their owners do not notice.

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
  // Does not wait: the thread closes the remaining descriptors and ends.
  ~BackgroundCloser();

  void close(UniqueFd descriptor);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<UniqueFd> waiting;
    bool is_last = false;
  };
  static void run(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may live longer
};

}  // namespace profd
