#include "collectors/host/thread_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace profd {
namespace {

constexpr int kNiceness = -5;
// A turn of the io thread takes ten milliseconds of CPU time at most. Beside 12 busy processes for
// each CPU it has 44 % of one with this, and 20 % with kNiceness.
constexpr int kNicenessOfIoThread = -10;
// With 50 tasks on a CPU, 100 ms of work take 15 s with this, and a minute with 10.
constexpr int kLowNiceness = 5;

// From <linux/ioprio.h>, which C++ can't include.
constexpr int kIoPriorityOfThread = 1;       // IOPRIO_WHO_PROCESS
constexpr int kLowIoPriority = 2 << 13 | 7;  // the last level of IOPRIO_CLASS_BE

void change_niceness(int from, int to) {
  if (::getpriority(PRIO_PROCESS, 0) == from) (void)::setpriority(PRIO_PROCESS, 0, to);
}

}  // namespace

void raise_priority() { change_niceness(0, kNiceness); }
void raise_priority_of_io_thread() { change_niceness(kNiceness, kNicenessOfIoThread); }
void lower_priority_of_worker() { change_niceness(kNicenessOfIoThread, kNiceness); }

PriorityOfIoThread::PriorityOfIoThread() noexcept : own_(::getpriority(PRIO_PROCESS, 0)) {
  const int io_threads = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  is_raised_ = own_ > io_threads && ::setpriority(PRIO_PROCESS, 0, io_threads) == 0;
}

PriorityOfIoThread::~PriorityOfIoThread() {
  if (is_raised_) (void)::setpriority(PRIO_PROCESS, 0, own_);
}

LowPriority::LowPriority() noexcept : own_(::getpriority(PRIO_PROCESS, 0)) {
  if (own_ >= 0 || ::setpriority(PRIO_PROCESS, 0, kLowNiceness) != 0) return;
  own_of_disk_ = ::syscall(SYS_ioprio_get, kIoPriorityOfThread, 0);
  (void)::syscall(SYS_ioprio_set, kIoPriorityOfThread, 0, kLowIoPriority);
}

LowPriority::~LowPriority() {
  if (own_of_disk_ < 0) return;
  (void)::setpriority(PRIO_PROCESS, 0, own_);
  (void)::syscall(SYS_ioprio_set, kIoPriorityOfThread, 0, own_of_disk_);
}

}  // namespace profd
