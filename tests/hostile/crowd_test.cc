// Users with very many mappings, and very many processes: root is answered, nobody's samples are
// lost, and the memory of profd is bounded.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMemoryAboveIdle = std::uint64_t{128} << 20;

class HostileCrowdTest : public ::testing::Test {
 protected:
  // Of the daemon and its children.
  [[nodiscard]] std::uint64_t memory() const {
    const StatusInfo status = daemon_.status();
    return status.rss_bytes + status.parsers.rss_bytes;
  }

  void attack(const Args& crowd) {
    const Ended started = daemon_.profctl({"start", "-a", "-F", "199"});
    ASSERT_EQ(started.status, 0) << started.err;
    const std::uint64_t idle = memory();
    std::uint64_t most = idle;
    Process::Options options;
    options.uid = kSomebody;
    Process program(crowd, options);
    while (program.running()) {
      ask_as_root(daemon_);
      most = std::max(most, memory());
    }
    const Ended ended = program.wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.out, "running\n");
    EXPECT_LT(most, idle + kMemoryAboveIdle);
    std::printf("memory: %llu KB when idle, %llu KB at most\n",
                static_cast<unsigned long long>(idle >> 10),
                static_cast<unsigned long long>(most >> 10));
    const fs::path output = directory_.path() / "out";
    const Ended stopped =
        daemon_.profctl({"stop", first_line(started.out), "-o", output / "all.pb.gz"});
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    const StatusInfo status = daemon_.status();
    EXPECT_EQ(status.ledger.difference(), 0);
    EXPECT_EQ(sum_of(status.ledger.lost), 0U);
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  Process busy_{{workload("shares"), "600"}};
};

TEST_F(HostileCrowdTest, OfMappingsHarmsNobody) {
  attack({workload("crowd"), "maps", std::to_string(attack_count(20'000, 65'000)), "4"});
}

TEST_F(HostileCrowdTest, OfProcessesHarmsNobody) {
  attack({workload("crowd"), "processes", std::to_string(attack_count(1'000, 10'000)), "4"});
}

}  // namespace
}  // namespace profd::e2e
