// The library of busy_calls: one function that does nothing, and one whose work is in a local one.

unsigned volatile library_sink;

unsigned tiny(unsigned value) { return value; }

__attribute__((noinline)) static unsigned local_work(unsigned rounds) {
  unsigned value = rounds;
  for (unsigned i = 0; i < rounds; ++i) library_sink = value = value * 2654435761u ^ i;
  return value;
}

unsigned hidden_work(unsigned rounds) { return local_work(rounds) + 1; }
