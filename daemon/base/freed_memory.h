// Gives freed memory back to the kernel.

#pragma once

namespace profd {

// malloc keeps what is freed, also whole pages of it, until it is asked. It locks the memory of
// each thread meanwhile, so the caller has the priority of the io thread for that time. Takes
// milliseconds. Any thread.
void return_freed_memory() noexcept;

}  // namespace profd
