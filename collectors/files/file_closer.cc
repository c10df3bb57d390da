#include "collectors/files/file_closer.h"

#include <sys/prctl.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "collectors/host/idle_thread.h"

namespace profd {

class FileCloser::Queue {
 public:
  // False: the thread has ended.
  bool push(std::shared_ptr<const void>& file) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return false;
    files_.push_back(std::move(file));
    changed_.notify_one();
    return true;
  }

  void serve() {
    ::prctl(PR_SET_NAME, "file-closer");
    std::unique_lock lock(mutex_);
    for (;;) {
      wait_and_return_memory(changed_, lock, [this] { return has_ended_ || !files_.empty(); });
      if (files_.empty()) return;
      std::shared_ptr<const void> file = std::move(files_.front());
      files_.pop_front();
      is_closing_ = true;
      lock.unlock();
      file.reset();
      lock.lock();
      is_closing_ = false;
    }
  }

  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_one();
  }

  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return files_.size() + (is_closing_ ? 1 : 0);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const void>> files_;
  bool is_closing_ = false;
  bool has_ended_ = false;
};

FileCloser::FileCloser()
    : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { queue->serve(); }) {}

FileCloser::~FileCloser() { queue_->end(); }

void FileCloser::close(const std::shared_ptr<Queue>& queue, std::shared_ptr<const void> file) {
  if (!queue->push(file)) file.reset();
}

std::size_t FileCloser::waiting() const { return queue_->waiting(); }

}  // namespace profd
