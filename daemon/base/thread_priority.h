// The priority of a thread while it holds what the io thread waits for.

#pragma once

namespace profd {

// While it lives, the calling thread has the priority of the io thread if its own is lower. For
// calls that lock the io thread's memory for long: malloc has a lock for the memory of each thread,
// which free() takes too, and on a busy host a thread of low priority would keep it while it waits
// for a CPU. Changes nothing where the thread may not raise its priority.
class PriorityOfIoThread {
 public:
  PriorityOfIoThread() noexcept;
  PriorityOfIoThread(const PriorityOfIoThread&) = delete;
  PriorityOfIoThread& operator=(const PriorityOfIoThread&) = delete;
  ~PriorityOfIoThread();

 private:
  int own_;  // niceness
  bool is_raised_ = false;
};

}  // namespace profd
