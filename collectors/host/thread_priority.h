// The priorities of the daemon's threads, where it may set them. On a host that is busy with many
// processes, a thread of the usual priority would get its turn only now and then. A unit of systemd
// has a part of the CPU time of its own instead, and no right to do this.

#pragma once

namespace profd {

// Raises the priority of the calling thread, and so of all threads and children that it starts. To
// be called once, before there are others. A priority that somebody chose stays.
void raise_priority();

// Raises the priority of the io thread, which calls this, above that of the workers. Does nothing
// unless raise_priority() raised it.
void raise_priority_of_io_thread();

// For a thread that the io thread has started: lowers its priority to what raise_priority() set.
void lower_priority_of_worker();

// While it lives, the calling thread has the priority of the io thread if its own is lower. For
// calls that use locks of the io thread's memory for long: a thread of low priority would keep one
// while it waits for a CPU. Changes nothing where the thread may not raise its priority.
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

// While it lives, the calling thread has a low priority for the CPU and the disk, for work that may
// take its time on a busy host. Does nothing unless raise_priority() raised that of the thread: it
// might not get its own priority back.
class LowPriority {
 public:
  LowPriority() noexcept;
  LowPriority(const LowPriority&) = delete;
  LowPriority& operator=(const LowPriority&) = delete;
  ~LowPriority();

 private:
  int own_;                // niceness
  long own_of_disk_ = -1;  // as of ioprio_get(2); -1: nothing was changed
};

}  // namespace profd
