// What systemd/profd.service allows, beside what the daemon bounds itself to.

#include <cstdint>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "collectors/jit/registry.h"
#include "collectors/xray/log_result.h"
#include "daemon/service/config.h"
#include "daemon/xray/memory.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

std::uint64_t gibibytes_of(const std::string& key) {
  const std::string unit = test::read_file(SERVICE_UNIT);
  std::smatch found;
  const bool is_there = std::regex_search(unit, found, std::regex("\n" + key + "=([0-9]+)G\n"));
  EXPECT_TRUE(is_there) << key;
  return is_there ? std::stoull(found[1]) << 30 : 0;
}

// Each of these is reached by somebody's work alone, and none of it is a mistake: so the kernel may
// not end the daemon for their sum.
TEST(ServiceUnit, HasRoomForAllThatTheDaemonsPartsMayTakeTogether) {
  const Config config;
  const std::uint64_t sum = config.session_max_bytes + config.unwind_max_bytes + kXrayMemoryBytes +
                            xray::kLogMemoryBytes + xray::kLogResultBytes + JitRegistry::kMaxBytes;
  EXPECT_LT(sum, gibibytes_of("MemoryMax"));
}

}  // namespace
}  // namespace profd
