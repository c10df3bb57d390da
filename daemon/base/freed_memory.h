// Gives freed memory back to the kernel.

#pragma once

namespace profd {

// malloc keeps what is freed, also whole pages of it, until it is asked. It locks the memory of
// each thread meanwhile, also that of the io thread. So a thread of low priority has the priority
// of the io thread for that time: on a busy host it would keep the lock while it waits for a CPU.
// Takes milliseconds. Any thread.
void return_freed_memory() noexcept;

}  // namespace profd
