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

__attribute__((noinline, section(".far_text"))) int far_too(int x) { return far_away(x) + 1; }

__attribute__((noinline)) int middle(int x) { return far_too(x) + 1; }

int main(void) { return middle(3) == 0; }

// Symbols as hand-written code has them: one inside another, bytes that belong to none, no size.
__asm__(
    ".pushsection .text\n"
    ".macro function name\n"
    ".globl \\name\n.type \\name, %function\n\\name:\n"
    ".endm\n"
    "function outer\n.skip 16\n"
    "function inner\n.skip 16\n.size inner, 16\n"
    ".skip 16\n.size outer, 48\n"
    ".skip 16\n"
    "function unsized\n.skip 16\n"
    "function sized_after\n.skip 16\n.size sized_after, 16\n"
    ".skip 16\n"
    ".popsection\n");
