// A value that one thread leaves for others.

#pragma once

#include <mutex>
#include <utility>

namespace profd {

// For small values: both calls copy under a lock. Any thread.
template <class T>
class SharedValue {
 public:
  void set(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }
  [[nodiscard]] T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace profd
