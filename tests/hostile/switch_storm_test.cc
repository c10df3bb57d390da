// Users whose threads switch as fast as they can, or are very many, while root samples blocks of
// the whole host: root is answered, root's own processes keep each of their blocks, and the memory
// of profd is bounded.
//
// Root asks by the admin socket, and at a raised priority: in such a storm Linux 6.18 lets any
// process of usual priority wait for a CPU for some seconds, which the door to the public socket is
// too.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"
#include "tests/e2e/off_cpu_rows.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr std::uint64_t kMemoryOfBlocks = std::uint64_t{128} << 20;

// Of the calling thread, as long as it exists.
class RaisedPriority {
 public:
  RaisedPriority() { EXPECT_EQ(::setpriority(PRIO_PROCESS, 0, -10), 0); }
  RaisedPriority(const RaisedPriority&) = delete;
  RaisedPriority& operator=(const RaisedPriority&) = delete;
  ~RaisedPriority() { ::setpriority(PRIO_PROCESS, 0, 0); }
};

class HostileSwitchesTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Process> waits_of(uid_t uid, const Args& arguments) {
    Process::Options user;
    user.uid = uid;
    Args command{workload("waits")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Process>(command, user);
  }

  // Root's session of all blocks of the host, of `options`. Meanwhile root asks for the status.
  Ended record_all(const Args& options) {
    Args args{"record", "-a", "-e", "off-cpu"};
    args.insert(args.end(), options.begin(), options.end());
    Process::Options process;
    process.environment["PROFD_SOCKET"] = daemon_.admin_socket();
    Process recording(daemon_.profctl_command(args), process);
    const RaisedPriority raised;
    while (recording.running()) {
      most_bytes_ = std::max(most_bytes_, ask_as_root(daemon_).rss_bytes);
      std::this_thread::sleep_for(10ms);
    }
    Ended ended = recording.wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended;
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  std::filesystem::path output_ = directory_.path() / "all.pb.gz";
  std::uint64_t most_bytes_ = 0;
};

// Two users' storms take no more than their shares of what may be walked: of root's program each
// block is sampled, and none is estimated. Without shares of the tokens, it would have fewer stacks
// than blocks, each with a weight.
TEST_F(HostileSwitchesTest, AStormTakesNoBlocksOfRoot) {
  std::vector<std::unique_ptr<Process>> storms;
  storms.push_back(waits_of(kNobody, {"storm", "600", "8"}));
  storms.push_back(waits_of(kSomebody, {"storm", "600", "8"}));
  const Ended ended = record_all({"-o", output_, "--", workload("waits"), "sleep"});
  const OwnWait own = OwnWaits::parse(ended.out).function("sleep_500_times");
  const BlockRows rows = BlockRows::read(output_);
  const BlockSum sum = rows.in("sleep_500_times");
  EXPECT_NEAR(sum.blocks, own.switches, 1);
  EXPECT_NEAR(sum.ns, own.ns, 0.02 * own.ns);
  const StatusInfo status = ask_as_root(daemon_);
  EXPECT_EQ(status.ledger.difference(), 0);
  // Records of users may find no room in their share of a ring; all others do.
  EXPECT_THAT(status.ledger.lost, ::testing::Each(::testing::Key("ring_share")));
  for (const auto& storm : storms) EXPECT_TRUE(storm->running());
}

// The blocks of a storm are estimated, and the ledger of the session balances: in the long form a
// million switches a second for as long as the attack lasts.
TEST_F(HostileSwitchesTest, AStormIsCountedWithoutLoss) {
  const auto storm = waits_of(kNobody, {"storm", "3600", "16"});
  const std::string duration = std::to_string(attack_time(4s).count()) + "s";
  const std::filesystem::path directory = directory_.path() / "out";
  record_all({"-o", directory, "-d", duration});
  const SessionSummary summary = read_summary(directory);
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_TRUE(summary.blocks.has_value());
  const BlockSummary& blocks = *summary.blocks;
  EXPECT_EQ(blocks.blocked.blocks, blocks.sampled.blocks + blocks.long_unsampled.blocks +
                                       blocks.short_unsampled.blocks + blocks.lost.blocks);
  // 2,000 walks a second on each CPU by token, half as many by chance, and 250 at new sites.
  const auto cpus = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_LE(static_cast<double>(blocks.sampled.blocks), 4'500 * cpus * summary.seconds);
  EXPECT_GE(blocks.blocked.blocks, 100'000U);
  std::printf("%llu blocks, %llu sampled, in %.1f s\n",
              static_cast<unsigned long long>(blocks.blocked.blocks),
              static_cast<unsigned long long>(blocks.sampled.blocks), summary.seconds);
}

// Each blocked thread may have an open block with a stack. A user has a share of that memory, and
// what has no room is counted.
TEST_F(HostileSwitchesTest, ManyBlockedThreadsTakeAShareOfTheMemory) {
  const std::uint64_t idle = ask_as_root(daemon_).rss_bytes;
  const auto pool = waits_of(kNobody, {"pool", "600", std::to_string(attack_count(2'000, 10'000))});
  ASSERT_TRUE(eventually([&] { return pool->out() == "running\n"; }, 120s));
  record_all({"-o", output_, "--", workload("waits"), "futex"});
  EXPECT_LE(most_bytes_, idle + kMemoryOfBlocks);
  std::printf("memory: %llu KB when idle, %llu KB at most\n",
              static_cast<unsigned long long>(idle >> 10),
              static_cast<unsigned long long>(most_bytes_ >> 10));
  EXPECT_EQ(ask_as_root(daemon_).ledger.difference(), 0);
  EXPECT_GT(BlockRows::read(output_).in("wait_for_lock").blocks, 190);
}

}  // namespace
}  // namespace profd::e2e
