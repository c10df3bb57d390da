#include "daemon/samples/hash_seed.h"

#include <sys/random.h>

#include <chrono>

namespace profd {
namespace {

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) == sizeof seed) return seed;
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

std::uint64_t daemon_hash_seed() {
  static const std::uint64_t seed = random_seed();
  return seed;
}

}  // namespace profd
