#include "daemon/history/windows_ahead.h"

namespace profd {

std::unique_ptr<ReadWindow> WindowsAhead::next() {
  begin();
  if (ahead_.empty()) return nullptr;
  std::unique_ptr<ReadWindow> window = ahead_.front().get();
  ahead_.pop_front();
  begin();
  return window;
}

void WindowsAhead::drop() {
  begun_ = files_.size();
  ahead_.clear();
}

// A file is read by the caller itself where no thread can be had.
void WindowsAhead::begin() {
  while (ahead_.size() < kAhead && begun_ < files_.size()) {
    ahead_.push_back(
        std::async(std::launch::async | std::launch::deferred,
                   [from = files_[begun_++]] { return std::make_unique<ReadWindow>(from); }));
  }
}

}  // namespace profd
