#include "daemon/samples/hash_seed.h"

namespace profd {

std::uint64_t daemon_hash_seed() {
  static const std::uint64_t seed = random_seed();
  return seed;
}

}  // namespace profd
