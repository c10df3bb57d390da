/* A 32-bit program that spins for good. Without a C library, which Debian has not got at hand for
 * that machine. */

static volatile unsigned sink;

void _start(void)
{
	for (;;)
		sink = sink * 16777619u + 1u;
}
