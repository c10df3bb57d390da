// A program that is looked at and never run: a function with others inlined, compiled with DWARF.

static inline __attribute__((always_inline)) int innermost(volatile int* x) {
  *x += 3;
  *x *= 5;
  return *x;
}

static inline __attribute__((always_inline)) int between(volatile int* x) {
  *x ^= 9;
  return innermost(x) + 1;
}

__attribute__((noinline)) int outer(volatile int* x) {
  *x -= 2;
  const int result = between(x);
  *x += result;
  return result;
}

__attribute__((noinline)) void _start(void) {
  volatile int x = 1;
  outer(&x);
}
