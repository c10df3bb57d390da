// One stack that stays as it is: qsort calls back, the callback raises a signal whose handler runs
// on an alternate stack and recurses, and there the program spins for good. It says "ready" before.
//
//     nest main|thread

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace
{

volatile std::uint64_t sink;
volatile bool over;

NOINLINE void spin()
{
	if (::write(STDOUT_FILENO, "ready\n", 6) != 6)
		std::abort();
	while (!over)
		sink = (sink ^ 1) * 1'099'511'628'211u;
}

NOINLINE void descend(int frames)
{
	if (frames == 0)
		spin();
	else
		descend(frames - 1);
	sink = sink + 1; // no tail call
}

NOINLINE void handle_signal(int)
{
	descend(8);
	sink = sink + 1;
}

NOINLINE int compare(const void *, const void *)
{
	::raise(SIGUSR1);
	return static_cast<int>(sink);
}

NOINLINE void work()
{
	std::vector<char> memory(64 * 1024);
	stack_t stack{};
	stack.ss_sp = memory.data();
	stack.ss_size = memory.size();
	::sigaltstack(&stack, nullptr);
	struct sigaction action {
	};
	action.sa_handler = handle_signal;
	action.sa_flags = SA_ONSTACK;
	::sigaction(SIGUSR1, &action, nullptr);
	int numbers[] = {2, 1};
	::qsort(numbers, 2, sizeof numbers[0], compare);
	sink = sink + 1;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc > 1 && std::strcmp(argv[1], "thread") == 0)
		std::thread(work).join();
	else
		work();
}
