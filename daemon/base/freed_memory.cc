#include "daemon/base/freed_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <malloc.h>

namespace profd {
namespace {

// Without the right to raise the priority, it stays as it is.
void set_niceness(int niceness) { (void)::setpriority(PRIO_PROCESS, 0, niceness); }

}  // namespace

void return_freed_memory() noexcept {
  const int own = ::getpriority(PRIO_PROCESS, 0);  // of the calling thread
  const int io_threads = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::getpid()));
  if (own > io_threads) set_niceness(io_threads);
  ::malloc_trim(0);
  if (own > io_threads) set_niceness(own);
}

}  // namespace profd
