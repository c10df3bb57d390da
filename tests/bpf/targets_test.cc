// The map of target processes: its shares, its counts, and the hooks that maintain it.

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectors/bpf/programs.h"
#include "collectors/host/clock.h"
#include "collectors/sampling/target_filter.h"
#include "collectors/sampling/target_map.h"
#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr uid_t kUser = 50'001;
constexpr std::uint32_t kHalf = PROFD_MAX_TARGETS / 2;
constexpr std::uint32_t kEighth = PROFD_MAX_TARGETS / 8;

// No process has such a tgid, so no hook removes it.
profd_task no_process(std::uint32_t number) {
  return {.start_ns = 1,
          .global_tgid = 0x10000000 + number,
          .tgid = 0x10000000 + number,
          .parent_global_tgid = 1,
          .exec_id = 1};
}

// The programs and their maps without a Sampler.
class TargetsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto programs = Programs::load(Programs::built_in(), 4096);
    ASSERT_TRUE(programs) << programs.error().message;
    programs_.emplace(std::move(*programs));
    ASSERT_TRUE(programs_->list_tasks(static_cast<std::uint32_t>(::getpid())));
    auto map = TargetMap::open(*programs_);
    ASSERT_TRUE(map) << map.error().message;
    map_.emplace(std::move(*map));
    auto filter = TargetFilter::open(*programs_);
    ASSERT_TRUE(filter) << filter.error().message;
    filter_.emplace(std::move(*filter));
  }

  // How many of these entries there was room for.
  std::uint32_t fill(SessionSlot slot, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto added = map_->add(slot, no_process(i), false);
      if (!added) {
        EXPECT_EQ(added.error().code, ErrorCode::kTooLarge);
        return i;
      }
    }
    return count;
  }

  // A session of the filter; with a user, it is unprivileged.
  void begin(SessionSlot slot, std::uint32_t pid, std::optional<uid_t> user) {
    SessionOwner owner;
    if (user) owner = {.rank = Rank::kUnprivileged, .user = *user};
    ASSERT_TRUE(filter_->add(slot, EventUse{.event_set = 0}, target_of_pid(pid), owner));
    wait_until([&] {
      const auto begun = filter_->has_begun(slot);
      EXPECT_TRUE(begun) << begun.error().message;
      return !begun || *begun;
    });
  }

  [[nodiscard]] profd_target_counts counts() const {
    const std::uint32_t zero = 0;
    profd_target_counts counts{};
    EXPECT_EQ(bpf_map_lookup_elem(*programs_->map("profd_target_counts"), &zero, &counts), 0);
    return counts;
  }

  [[nodiscard]] int entries() const {
    const int map = *programs_->map("profd_targets");
    profd_target_key key{};
    int count = 0;
    for (const profd_target_key* last = nullptr; bpf_map_get_next_key(map, last, &key) == 0;
         last = &key) {
      ++count;
    }
    return count;
  }

  [[nodiscard]] std::uint64_t not_followed() const {
    std::vector<profd_counters> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    const std::uint32_t zero = 0;
    EXPECT_EQ(bpf_map_lookup_elem(*programs_->map("profd_counters"), &zero, cpus.data()), 0);
    std::uint64_t sum = 0;
    for (const profd_counters& cpu : cpus) sum += cpu.not_followed;
    return sum;
  }

  static void wait_until(const std::function<bool()>& condition) {
    const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), guard);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::optional<Programs> programs_;
  std::optional<TargetMap> map_;
  std::optional<TargetFilter> filter_;
};

TEST_F(TargetsTest, OneUserHasAnEighthOfTheEntriesInAllSessions) {
  map_->open_account(0, kUser);
  map_->open_account(1, kUser);
  map_->open_account(2, kUser + 1);
  EXPECT_EQ(fill(0, 1000), 1000U);
  EXPECT_EQ(fill(1, PROFD_MAX_TARGETS), kEighth - 1000);
  EXPECT_EQ(fill(0, 1001), 1000U) << "a target that is there already needs no room";
  EXPECT_EQ(fill(2, 1), 1U) << "of another user";
  map_->remove_all(1);
  EXPECT_EQ(counts().of_account[map_->open_account(1, kUser)], 1000);
  EXPECT_EQ(counts().of_users, 1001);
  EXPECT_EQ(fill(1, PROFD_MAX_TARGETS), kEighth - 1000);
}

TEST_F(TargetsTest, AllUsersTogetherHaveHalfAndRootHasTheRest) {
  for (SessionSlot slot = 0; slot < 4; ++slot) {
    map_->open_account(slot, kUser + slot);
    EXPECT_EQ(fill(slot, kEighth), kEighth);
  }
  map_->open_account(4, kUser + 4);
  EXPECT_EQ(fill(4, 1), 0U);
  map_->open_account(20, std::nullopt);
  EXPECT_EQ(fill(20, kHalf), kHalf);
  EXPECT_EQ(fill(20, PROFD_MAX_TARGETS), kHalf) << "the map is full";
  map_->remove_all(0);
  EXPECT_EQ(fill(4, PROFD_MAX_TARGETS), kEighth);
  for (const SessionSlot slot : {1, 2, 3, 4, 20}) map_->remove_all(slot);
  EXPECT_EQ(entries(), 0);
  EXPECT_EQ(counts().of_users, 0);
  for (const int count : counts().of_account) EXPECT_EQ(count, 0);
}

TEST_F(TargetsTest, AnEntryOfAnEarlierProcessIsReplaced) {
  map_->open_account(0, kUser);
  profd_task process = no_process(1);
  EXPECT_TRUE(map_->add(0, process, false).value());
  EXPECT_FALSE(map_->add(0, process, false).value());
  ++process.start_ns;
  EXPECT_TRUE(map_->add(0, process, false).value());
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(counts().of_users, 1);
  EXPECT_EQ(map_->slots_with_targets(), 1U);
  map_->remove(0, process);
  map_->remove(0, process);
  EXPECT_EQ(counts().of_users, 0);
  EXPECT_EQ(map_->slots_with_targets(), 0U);
}

TEST_F(TargetsTest, AChildBeyondItsUsersShareIsCountedAndRootsSessionFollowsIt) {
  // The filter and this map choose the same account for the first user.
  const std::uint32_t account = map_->open_account(10, kUser);
  ASSERT_EQ(fill(10, kEighth - 2), kEighth - 2);
  const Workload workload({"fork-later"});
  begin(0, workload.pid(), kUser);
  begin(1, workload.pid(), std::nullopt);
  workload.signal(SIGUSR1);
  wait_until([&] { return counts().of_account[0] == 2; });
  EXPECT_EQ(counts().of_account[account], kEighth);
  EXPECT_EQ(not_followed(), 0U);
  workload.signal(SIGUSR1);
  wait_until([&] { return counts().of_account[0] == 3; });
  EXPECT_EQ(counts().of_account[account], kEighth);
  EXPECT_EQ(not_followed(), 1U);
}

TEST_F(TargetsTest, ASessionWithMoreProcessesThanItsUserMayHaveDoesNotBegin) {
  map_->open_account(10, kUser);
  ASSERT_EQ(fill(10, kEighth - 5), kEighth - 5);
  const Workload workload({"chain", "10"});
  ASSERT_TRUE(filter_->add(0, EventUse{.event_set = 0}, target_of_pid(workload.pid()),
                           {.rank = Rank::kUnprivileged, .user = kUser}));
  std::optional<Error> error;
  wait_until([&] {
    const auto begun = filter_->has_begun(0);
    if (!begun) error = begun.error();
    return !begun || *begun;
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kTooLarge);
  filter_->stop_matching(0);
  filter_->remove(0);
  EXPECT_EQ(counts().of_users, kEighth - 5);
  EXPECT_EQ(entries(), kEighth - 5);
}

TEST_F(TargetsTest, EntriesAreCountedExactlyWhileProcessesComeAndGo) {
  {
    const Workload first({"storm"});
    const Workload second({"storm"});
    begin(0, first.pid(), kUser);
    begin(1, second.pid(), kUser + 1);
    begin(2, second.pid(), std::nullopt);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    begin(3, first.pid(), kUser);
    EXPECT_GE(counts().of_users, 3);
    filter_->stop_matching(1);
    const std::uint64_t grace_period = programs_->grace_periods().begin();
    wait_until([&] { return programs_->grace_periods().is_over(grace_period); });
    filter_->remove(1);
    EXPECT_EQ(not_followed(), 0U);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  wait_until([this] {
    const profd_target_counts now = counts();
    return std::reduce(std::begin(now.of_account), std::end(now.of_account)) == entries();
  });
  for (const SessionSlot slot : {0, 2, 3}) {
    filter_->stop_matching(slot);
    filter_->remove(slot);
  }
  EXPECT_EQ(entries(), 0);
  EXPECT_EQ(counts().of_users, 0);
  for (const int count : counts().of_account) EXPECT_EQ(count, 0);
}

TEST_F(TargetsTest, AProcessThatExitedAMinuteAgoIsRemovedWithoutTheHook) {
  map_->open_account(0, kUser);
  EXPECT_EQ(fill(0, 3), 3U);
  const auto set_ended = [this](std::uint32_t number, std::chrono::seconds ago) {
    const int map = *programs_->map("profd_targets");
    const profd_target_key key{.tgid = no_process(number).global_tgid, .slot = 0};
    profd_target target{};
    ASSERT_EQ(bpf_map_lookup_elem(map, &key, &target), 0);
    const std::chrono::nanoseconds now(now_ns(CLOCK_MONOTONIC));
    target.ended_ns = static_cast<std::uint64_t>((now - ago).count());
    ASSERT_EQ(bpf_map_update_elem(map, &key, &target, BPF_EXIST), 0);
  };
  set_ended(0, std::chrono::seconds(61));
  set_ended(1, std::chrono::seconds(30));
  EXPECT_EQ(map_->slots_with_targets(), 1U);
  EXPECT_EQ(entries(), 2);
  EXPECT_EQ(counts().of_users, 2);
  set_ended(2, std::chrono::seconds(1));
  EXPECT_EQ(map_->slots_with_targets(), 0U);
}

// A list of all processes shows the whole chain.
TEST_F(TargetsTest, AllProcessesOfADeepChainAreTargets) {
  constexpr int kDepth = 300;
  const Workload workload({"chain", std::to_string(kDepth)});
  begin(0, workload.pid(), kUser);
  EXPECT_EQ(entries(), kDepth + 1);
  EXPECT_EQ(counts().of_users, kDepth + 1);
  EXPECT_TRUE(filter_->has_targets(0));
}

TEST_F(TargetsTest, ASessionThatIsRemovedWhileItBeginsLeavesNoEntry) {
  const Workload workload({"chain", "20"});
  for (int calls = 0; calls < 10; ++calls) {
    ASSERT_TRUE(filter_->add(0, EventUse{.event_set = 0}, target_of_pid(workload.pid()), {}));
    EXPECT_TRUE(filter_->has_targets(0)) << "it has not begun";
    for (int i = 0; i < calls; ++i) {
      ASSERT_TRUE(filter_->has_begun(0));
      std::this_thread::sleep_for(milliseconds(1));
    }
    filter_->stop_matching(0);
    filter_->remove(0);
    EXPECT_EQ(entries(), 0);
    EXPECT_TRUE(filter_->has_begun(0).value());
    EXPECT_FALSE(filter_->has_targets(0));
  }
}

class HooksTest : public SamplingTest {
 protected:
  static std::size_t open_links() {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += fs::read_symlink(entry, gone).string().starts_with("anon_inode:bpf_link");
    }
    return count;
  }
};

// Detaching and attaching wait in the kernel.
TEST_F(HooksTest, StayAttachedWhileSessionsComeAndGo) {
  const Workload workload({"spin"});
  EXPECT_EQ(open_links(), 0U);
  stop_balanced(start(target_of_pid(workload.pid())));
  constexpr std::size_t kHooks = 3;  // of forks, exits, and freed tasks
  EXPECT_EQ(open_links(), kHooks);
  for (int i = 0; i < 5; ++i) {
    stop_balanced(start(target_of_pid(workload.pid())));
    sampler_->detach_unneeded_hooks();
    EXPECT_EQ(open_links(), kHooks);
  }
}

}  // namespace
}  // namespace profd::test
