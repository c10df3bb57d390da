// A program that is looked at and never run: functions whose addresses a test puts into samples.
// Without a C library, so that its entry point has a symbol, as in a static program.

__attribute__((noinline)) int leaf(int x) {
  volatile int sum = 0;
  for (int i = 0; i < x; i++) sum += i;
  return sum;
}

__attribute__((noinline)) int middle(int x) { return leaf(x) + 1; }

__attribute__((noinline)) int outer(int x) { return middle(x) + 1; }

__attribute__((noinline)) void _start(void) { outer(3); }
