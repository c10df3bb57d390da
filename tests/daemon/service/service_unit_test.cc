// The limits of systemd/profd.service, beside those of the daemon itself.

#include <cstdint>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "collectors/jit/processes.h"
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

// Each of these limits may be reached by valid work, and all at once: then the kernel must not kill
// the daemon.
TEST(ServiceUnit, HasRoomForTheMemoryLimitsOfAllParts) {
  const Config config;
  const std::uint64_t sum = config.session_max_bytes + config.unwind_max_bytes + kXrayMemoryBytes +
                            xray::kLogMemoryBytes + xray::kLogResultBytes + JitSources::kMaxBytes;
  EXPECT_LT(sum, gibibytes_of("MemoryMax"));
}

}  // namespace
}  // namespace profd
