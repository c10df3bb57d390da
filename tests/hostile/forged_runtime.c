/* A shared library that looks like libpython 3.11. Copies of it that differ in one symbol are as
 * many interpreters (forged_python.c, "files"). */

#include "forged_symbols.h"

__attribute__((noinline)) long forged_spin(long rounds) {
  volatile long total = 0;

  for (long i = 0; i < rounds; i++) total += i;
  return total;
}

__attribute__((noinline)) long _PyEval_EvalFrameDefault(long rounds) {
  return forged_spin(rounds) + 1;
}
