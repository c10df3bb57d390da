/*
 * A recursion of a given depth, busy at its bottom.
 *
 *     depth SECONDS FRAMES
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;
static double seconds;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

NOINLINE void bottom(void)
{
	double end = now() + seconds;

	while (now() < end)
		for (uint32_t i = 0; i < 100000; i++)
			sink = (sink ^ i) * 1099511628211u;
}

NOINLINE void descend(int frames)
{
	if (frames <= 1)
		bottom();
	else
		descend(frames - 1);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

int main(int argc, char **argv)
{
	seconds = argc > 1 ? atof(argv[1]) : 1;
	descend(argc > 2 ? atoi(argv[2]) : 25);
	return 0;
}
