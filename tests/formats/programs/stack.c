// A program whose functions the tests look up: chained calls, a weak alias, a local function, one
// in a segment of its own.

__attribute__((noinline)) static int local_leaf(int x) {
  volatile int sum = 0;
  for (int i = 0; i < x; i++) sum += i;
  return sum;
}

__attribute__((noinline)) int hot_leaf(int x) { return local_leaf(x) + 1; }
int an_alias(int x) __attribute__((weak, alias("hot_leaf")));

__attribute__((noinline, section(".far_text"))) int far_away(int x) { return hot_leaf(x) + 1; }

__attribute__((noinline)) int middle(int x) { return far_away(x) + 1; }

int main(void) { return middle(3) == 0; }
