/*
 * Hot functions with known shares: six, three and one tenth of the work, each by the same loop.
 *
 *     shares SECONDS [THREADS]
 *
 * Runs for SECONDS of CPU time in each thread, then prints the process's CPU time in microseconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
/* A call of caller() takes 0.2 to 0.8 ms, another time each, so that no sampling frequency falls in
 * step with it. */
#define SMALLEST_UNIT 20000
#define UNIT_STEPS 64
#define UNIT_STEP 1000

/* gcc leaves the frame out of a function that calls none, whatever the flags, unless it asks for
 * its address. */
#define KEEP_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

static volatile uint64_t sink;
static double seconds;
static __thread uint32_t unit, seed = 1;

#define WORK(units)                                                                                \
	do {                                                                                       \
		KEEP_FRAME();                                                                      \
		uint64_t hash = 14695981039346656037u;                                             \
		for (uint32_t i = 0; i < unit * (units); i++)                                      \
			hash = (hash ^ i) * 1099511628211u;                                        \
		sink = hash;                                                                       \
	} while (0)

NOINLINE void hot_sixty(void)
{
	WORK(6u);
}

NOINLINE void hot_thirty(void)
{
	WORK(3u);
}

NOINLINE void hot_ten(void)
{
	WORK(1u);
}

static double cpu_seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

NOINLINE void caller(void)
{
	seed = seed * 1664525 + 1013904223;
	unit = SMALLEST_UNIT + (seed >> 26) % UNIT_STEPS * UNIT_STEP;
	hot_sixty();
	hot_thirty();
	hot_ten();
}

/* `number` is part of the thread's name; NULL: the leader. */
static void *work(void *number)
{
	char name[16];

	if (number) {
		snprintf(name, sizeof(name), "share-%d", *(int *)number);
		pthread_setname_np(pthread_self(), name);
	}
	while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < seconds)
		caller();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[16];
	int numbers[16];
	int count = argc > 2 ? atoi(argv[2]) : 1;

	seconds = argc > 1 ? atof(argv[1]) : 1;
	if (count < 1 || count > 16)
		return 2;
	for (int i = 1; i < count; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, work, &numbers[i]);
	}
	work(NULL);
	for (int i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%.0f\n", cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) * 1e6);
	return 0;
}
