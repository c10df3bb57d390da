/* A library without any Python in it that calls back: qsort's comparison is a Python function, by
 * ctypes. Its own frame lies between two segments. */

#include <stdlib.h>

int call_from_c(int (*compare)(const void *, const void *), int *numbers, int count)
{
	qsort(numbers, (size_t)count, sizeof(int), compare);
	return numbers[0]; /* so that this is no tail call */
}
