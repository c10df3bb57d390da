#include "daemon/base/freed_memory.h"

#include <malloc.h>

#include "collectors/host/thread_priority.h"

namespace profd {

void return_freed_memory() noexcept {
  const PriorityOfIoThread priority;
  ::malloc_trim(0);
}

}  // namespace profd
