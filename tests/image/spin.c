/*
 * Spins in one function, whose name the compiler's -DHOT=NAME gives. Ends by itself after ten
 * minutes.
 */
#include <unistd.h>

#define LONGEST_SECONDS 600
#define TURNS_OF_A_CALL 100000000UL

static volatile unsigned long turns;

__attribute__((noinline, noclone)) void HOT(void) {
  for (unsigned long i = 0; i < TURNS_OF_A_CALL; i++) turns++;
}

int main(void) {
  alarm(LONGEST_SECONDS);
  for (;;) HOT();
}
