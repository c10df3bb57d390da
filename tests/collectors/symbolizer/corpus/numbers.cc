// Static functions that are inlined into each other, and one that is cold.

static long square(long x) { return x * x; }

static inline long step(long x, long y) {
  long sum = 0;
  for (long i = x; i < y; ++i) sum += square(i) ^ (sum >> 3);
  return sum;
}

static long __attribute__((noinline, cold)) report(const long* numbers, long count) {
  long sum = 1;
  for (long i = 0; i < count; ++i) sum = sum * 31 + step(numbers[i], 7);
  return sum;
}

static long weigh(const long* numbers, long count, long weight) {
  long sum = 0;
  for (long i = 0; i < count; ++i) {
    if (__builtin_expect(numbers[i] < 0, 0)) return report(numbers, count);
    sum += step(0, numbers[i] & 15) * weight;
  }
  return sum;
}

extern "C" long mix_numbers(const long* numbers, long count) {
  return weigh(numbers, count, 3) + weigh(numbers, count / 2, square(count));
}
