// busy_names: a part of a second of CPU time in each of some functions, with inlined ones in them.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

namespace busy {

unsigned volatile sink;

template <class T>
[[gnu::always_inline]] inline T stir(T value) {
  value *= 2654435761U;
  return value ^ (value >> 13U);
}

template <class T>
class Table {
 public:
  [[gnu::noinline]] void fill(T seed) {
    for (T& value : values_) value = seed = stir(seed);
  }
  [[gnu::noinline]] void order() {
    std::sort(values_.begin(), values_.end(), [](T a, T b) { return stir(a) < stir(b); });
  }

 private:
  std::vector<T> values_ = std::vector<T>(4096);
};

namespace {

[[gnu::noinline]] unsigned churn(unsigned rounds) {
  unsigned value = rounds;
  for (unsigned i = 0; i < rounds; ++i) {
    value = stir(value + i);
    sink = value;
  }
  return value;
}

}  // namespace

bool has_time(double seconds) {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 < seconds;
}

}  // namespace busy

// Removes the file that it is given, which may be its own.
int main(int count, char** arguments) {
  if (count > 1) std::remove(arguments[1]);
  busy::Table<unsigned> table;
  while (busy::has_time(0.3)) {
    for (unsigned i = 0; i < 100; ++i) table.fill(i);
  }
  while (busy::has_time(0.6)) {
    table.fill(1);
    table.order();
  }
  while (busy::has_time(0.9)) busy::sink = busy::churn(100'000);
}
