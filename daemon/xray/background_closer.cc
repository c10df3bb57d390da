#include "daemon/xray/background_closer.h"

#include <sys/prctl.h>

#include <thread>
#include <utility>

namespace profd {

BackgroundCloser::BackgroundCloser() : queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { run(queue); }).detach();
}

BackgroundCloser::~BackgroundCloser() {
  const std::lock_guard lock(queue_->mutex);
  queue_->is_last = true;
  queue_->changed.notify_one();
}

void BackgroundCloser::close(UniqueFd descriptor) {
  const std::lock_guard lock(queue_->mutex);
  queue_->waiting.push_back(std::move(descriptor));
  queue_->changed.notify_one();
}

void BackgroundCloser::run(const std::shared_ptr<Queue>& queue) {
  ::prctl(PR_SET_NAME, "closer");
  for (;;) {
    std::vector<UniqueFd> to_close;  // destroyed without the lock
    std::unique_lock lock(queue->mutex);
    queue->changed.wait(lock, [&] { return queue->is_last || !queue->waiting.empty(); });
    if (queue->waiting.empty()) return;
    to_close.swap(queue->waiting);
  }
}

}  // namespace profd
