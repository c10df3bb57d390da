/*
 * Uses one CPU in a part of each second, by the clock of the day, and sleeps in the rest of it.
 *
 *     phases SECONDS FIRST_MS LAST_MS
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KEEP_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

static volatile uint64_t sink;

static long ms_of_second(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_nsec / 1000000;
}

NOINLINE void hot_phase(long first_ms, long last_ms)
{
	KEEP_FRAME();
	for (long now = ms_of_second(); now >= first_ms && now < last_ms; now = ms_of_second())
		for (uint32_t i = 0; i < 20000; i++)
			sink = sink * 1099511628211u + i;
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	const long first_ms = argc > 2 ? atol(argv[2]) : 300;
	const long last_ms = argc > 3 ? atol(argv[3]) : 600;

	while (time(NULL) < end) {
		const long wait_ms = (first_ms - ms_of_second() + 1000) % 1000;
		const struct timespec pause = {.tv_nsec = wait_ms * 1000000};

		nanosleep(&pause, NULL);
		hot_phase(first_ms, last_ms);
	}
	return 0;
}
