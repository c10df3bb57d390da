#include "daemon/base/thread_priority.h"

#include <sys/resource.h>
#include <unistd.h>

namespace profd {

PriorityOfIoThread::PriorityOfIoThread() noexcept : own_(::getpriority(PRIO_PROCESS, 0)) {
  const int io_threads = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  is_raised_ = own_ > io_threads && ::setpriority(PRIO_PROCESS, 0, io_threads) == 0;
}

PriorityOfIoThread::~PriorityOfIoThread() {
  if (is_raised_) (void)::setpriority(PRIO_PROCESS, 0, own_);
}

}  // namespace profd
