/* A program with an interpreter inside, as uwsgi or Blender have: its Python code runs below
 * native frames of its own.
 *
 *     embedded SECONDS */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <stdlib.h>

static const char text[] = "import time\n"
			   "def embedded_work(seconds):\n"
			   "    end = time.thread_time() + seconds\n"
			   "    while time.thread_time() < end:\n"
			   "        pass\n"
			   "embedded_work(%f)\n";

__attribute__((noinline)) int run_script(double seconds)
{
	char script[sizeof(text) + 32];

	snprintf(script, sizeof(script), text, seconds);
	const int result = PyRun_SimpleString(script);
	fflush(stdout); /* so that this is no tail call */
	return result;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	Py_Initialize();
	const int result = run_script(atof(argv[1]));
	return Py_FinalizeEx() != 0 || result != 0;
}
