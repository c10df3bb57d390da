/*
 * Forks and execs itself as fast as it can, and prints how often.
 *
 *     storm SECONDS [SLEEPERS]
 *
 * With SLEEPERS it starts that many sleeping processes instead, prints "ready", and ends them after
 * SECONDS.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int sleepers(double seconds, int count)
{
	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
	puts("ready");
	fflush(stdout);
	usleep((useconds_t)(seconds * 1e6));
	return 0;
}

int main(int argc, char **argv)
{
	double end;
	long count = 0;

	if (argc > 1 && !strcmp(argv[1], "leaf"))
		return 0;
	if (argc > 2)
		return sleepers(atof(argv[1]), atoi(argv[2]));
	end = now() + (argc > 1 ? atof(argv[1]) : 1);
	while (now() < end) {
		pid_t pid = fork();

		if (pid == 0) {
			execl("/proc/self/exe", "storm", "leaf", NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
		count++;
	}
	printf("%ld\n", count);
	return 0;
}
