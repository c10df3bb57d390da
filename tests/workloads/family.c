/*
 * A parent, a forked child and an exec, each busy in a function of its own.
 *
 *     family SECONDS          parent_work, and child_work in a forked child; both for SECONDS
 *     family SECONDS exec     before_exec for SECONDS, then after_exec in the same process
 *     family SECONDS storm    for SECONDS: children of 20 ms each in brief_work, which exec this
 * file
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define WORK(seconds)                                                                              \
	do {                                                                                       \
		double end = now() + (seconds);                                                    \
		while (now() < end)                                                                \
			for (uint32_t i = 0; i < 100000; i++)                                      \
				sink = (sink ^ i) * 1099511628211u;                                \
	} while (0)

NOINLINE void parent_work(double seconds)
{
	WORK(seconds);
}

NOINLINE void child_work(double seconds)
{
	WORK(seconds);
}

NOINLINE void before_exec(double seconds)
{
	WORK(seconds);
}

NOINLINE void after_exec(double seconds)
{
	WORK(seconds);
}

NOINLINE void brief_work(double seconds)
{
	WORK(seconds);
}

/* By its own path: a program that is run as /proc/self/exe is called "exe". */
static void exec_self(const char *seconds, const char *mode)
{
	char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (bytes < 0)
		_exit(127);
	path[bytes] = 0;
	execl(path, "family", seconds, mode, NULL);
	_exit(127);
}

static int storm(double seconds)
{
	double end = now() + seconds;

	while (now() < end) {
		pid_t pid = fork();

		if (pid == 0)
			exec_self("0.02", "brief");
		waitpid(pid, NULL, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const char *mode = argc > 2 ? argv[2] : "fork";
	pid_t pid;

	if (!strcmp(mode, "storm"))
		return storm(seconds);
	if (!strcmp(mode, "brief")) {
		brief_work(seconds);
		return 0;
	}
	if (!strcmp(mode, "exec")) {
		before_exec(seconds);
		exec_self(argv[1], "after");
	}
	if (!strcmp(mode, "after")) {
		after_exec(seconds);
		return 0;
	}
	pid = fork();
	if (pid == 0) {
		child_work(seconds);
		_exit(0);
	}
	parent_work(seconds);
	waitpid(pid, NULL, 0);
	return 0;
}
