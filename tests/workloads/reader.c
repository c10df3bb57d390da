/*
 * Kernel-heavy: reads /dev/zero into a buffer, in read_zeros, for SECONDS.
 *
 *     reader SECONDS
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static char buffer[1 << 20];

/* The call stands here: libc's wrapper has no frame, so that its caller would be left out of the
 * stack. */
static inline long system_read(long fd, void *bytes, long count)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_read), "D"(fd), "S"(bytes), "d"(count)
			 : "rcx", "r11", "memory");
	return result;
}

NOINLINE long read_zeros(int fd)
{
	long total = 0;

	for (int i = 0; i < 16; i++)
		total += system_read(fd, buffer, sizeof(buffer));
	return total;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	int fd = open("/dev/zero", O_RDONLY);
	struct timespec start, now;

	if (fd < 0)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		read_zeros(fd);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - start.tv_sec) +
			 (double)(now.tv_nsec - start.tv_nsec) * 1e-9 <
		 seconds);
	return 0;
}
