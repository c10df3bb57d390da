/*
 * Many mappings with code, or many processes.
 *
 *     crowd maps COUNT SECONDS
 *     crowd forks COUNT SECONDS
 *     crowd processes COUNT SECONDS
 *
 * "maps" runs the code of each of its mappings in turn; "forks" does that and forks all the time,
 * which holds the lock of the mappings while they are copied; "processes" forks that many, each of
 * which is busy for a millisecond and then waits for the end. All print "running" once what they
 * make is there, and end after SECONDS.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

typedef void (*function)(long spins);

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* spin: dec rdi; jnz spin; ret */
static const uint8_t code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};

static void fork_and_wait(void)
{
	const pid_t child = fork();

	must(child >= 0, "fork");
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* One page of a file, mapped again and again: neighbours with one offset don't merge. */
static void maps(long count, double seconds, int forks)
{
	const size_t bytes = (size_t)count * PAGE;
	const int file = memfd_create("crowd", 0);
	uint8_t *at;

	must(file >= 0 && ftruncate(file, PAGE) == 0, "memfd");
	must(pwrite(file, code, sizeof(code), 0) == sizeof(code), "pwrite");
	at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(at != MAP_FAILED, "mmap");
	for (long i = 0; i < count; i++)
		must(mmap(at + i * PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file,
			  0) != MAP_FAILED,
		     "mmap");
	puts("running");
	fflush(stdout);
	for (double end = now() + seconds; now() < end;)
		for (long i = 0; i < count; i++) {
			function spin;
			const uint8_t *start = at + i * PAGE;

			memcpy(&spin, &start, sizeof(spin));
			spin(20000);
			if (forks && i % 100 == 0)
				fork_and_wait();
		}
}

static void be_one_of_many(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it ended before that */
		_exit(0);
	for (double end = now() + 0.001; now() < end;)
		continue;
	pause();
	_exit(0);
}

static void processes(long count, double seconds)
{
	const pid_t self = getpid();
	struct timespec rest;

	signal(SIGTERM, SIG_IGN);
	setpgid(0, 0);
	for (long i = 0; i < count; i++) {
		const pid_t child = fork();

		must(child >= 0, "fork");
		if (child == 0) {
			signal(SIGTERM, SIG_DFL);
			be_one_of_many(self);
		}
	}
	puts("running");
	fflush(stdout);
	rest.tv_sec = (time_t)seconds;
	rest.tv_nsec = 0;
	nanosleep(&rest, NULL);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		continue;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	if (strcmp(argv[1], "processes") == 0)
		processes(atol(argv[2]), atof(argv[3]));
	else
		maps(atol(argv[2]), atof(argv[3]), strcmp(argv[1], "forks") == 0);
	return 0;
}
