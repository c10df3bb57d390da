// Which processes a session samples: every criterion of a target, and several sessions at once.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"
#include "tests/collectors/begun_start.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;
using FilterTest = SamplingTest;
using std::chrono::milliseconds;

// Unique to this process, since other tests may run at the same time.
const uid_t kUser = 50'000 + static_cast<uid_t>(::getpid()) % 10'000;
const uid_t kOther = kUser + 10'000;
const uid_t kThird = kUser + 20'000;

std::set<std::uint32_t> sampled(const RecordingSink& sink, std::uint32_t sessions = ~0U) {
  std::set<std::uint32_t> tgids;
  for (const StoredSample& sample : sink.samples) {
    if ((sample.view.sessions & sessions) != 0) tgids.insert(sample.view.process.tgid);
  }
  return tgids;
}

// The mount point of cgroup v2, from the mount table.
std::string cgroup_mount() {
  std::ifstream mounts("/proc/mounts");
  for (std::string device, place, type, rest; mounts >> device >> place >> type;) {
    std::getline(mounts, rest);
    if (type == "cgroup2") return place;
  }
  throw std::runtime_error("no cgroup v2 is mounted");
}

// A cgroup for one test. It must be empty when it is removed.
class Cgroup {
 public:
  explicit Cgroup(const std::string& name)
      : name_("profd-test-" + std::to_string(::getpid()) + name),
        path_(cgroup_mount() + "/" + name_) {
    fs::create_directories(path_);
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;
  ~Cgroup() {
    // A killed process leaves its cgroup shortly after it is reaped.
    for (int i = 0; i < 1000 && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string name_;
  std::string path_;
};

TEST_F(FilterTest, APidSelectsThatProcessOnly) {
  const Workload wanted({"spin"});
  const Workload other({"spin"});
  const SessionSlot slot = start(target_of_pid(wanted.pid()));
  collect(wanted.pid(), 100);
  const SlotLedger last = stop_balanced(slot);
  EXPECT_EQ(sampled(sink_), std::set{wanted.pid()});
  EXPECT_EQ(last.taken, sink_.samples.size());
  EXPECT_GT(sampler_->ledger().filtered, 0U);
}

TEST_F(FilterTest, ThePidOfNoProcessIsRefusedWithItsNumber) {
  std::uint32_t gone = 0;
  {
    const Workload workload({"spin"});
    gone = workload.pid();
  }
  const auto slot = start_and_begin(*sampler_, event_of("cpu-clock", 99), target_of_pid(gone));
  ASSERT_FALSE(slot);
  EXPECT_EQ(slot.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(slot.error().message, "no such process " + std::to_string(gone));
}

TEST_F(FilterTest, ACommSelectsEveryProcessWhoseLeaderHasThatName) {
  const Workload wanted({"named", "profd-test-name"});
  const Workload other({"named", "profd-test-nam"});
  Target target;
  target.comms = {"profd-test-name"};
  const SessionSlot slot = start(target);
  collect(wanted.pid(), 50);
  stop_balanced(slot);
  EXPECT_EQ(sampled(sink_), std::set{wanted.pid()});
  ASSERT_FALSE(sink_.processes.empty());
  EXPECT_EQ(sink_.processes.front().comm, "profd-test-name");
}

TEST_F(FilterTest, AUidSelectsEveryProcessOfThatUser) {
  const Workload wanted({"spin"}, {.uid = kUser, .gid = kUser});
  const Workload other({"spin"}, {.uid = kOther, .gid = kOther});
  Target target;
  target.uids = {kUser};
  const SessionSlot slot = start(target);
  collect(wanted.pid(), 50);
  stop_balanced(slot);
  EXPECT_EQ(sampled(sink_), std::set{wanted.pid()});
  EXPECT_EQ(sink_.processes.front().uid, kUser);
}

TEST_F(FilterTest, ACgroupSelectsTheProcessesInItAndBelow) {
  const Cgroup parent("-parent");
  const Cgroup child("-parent/child");
  const Workload direct({"spin"}, {.cgroup = parent.path()});
  const Workload below({"spin"}, {.cgroup = child.path()});
  const Workload outside({"spin"});
  Target target;
  target.cgroups = {"/" + parent.name()};
  const SessionSlot slot = start(target);
  collect(direct.pid(), 50);
  collect(below.pid(), 50);
  stop_balanced(slot);
  EXPECT_EQ(sampled(sink_), (std::set{direct.pid(), below.pid()}));
  const auto record = std::ranges::find(
      sink_.processes, below.pid(), [](const StoredProcess& each) { return each.process.tgid; });
  ASSERT_NE(record, sink_.processes.end());
  EXPECT_EQ(record->cgroup, std::string("child\0", 6) + parent.name() + '\0');
}

TEST_F(FilterTest, AMissingCgroupIsRefused) {
  Target target;
  target.cgroups = {"/profd-test-none"};
  const auto slot = sampler_->start(event_of("cpu-clock", 99), target);
  ASSERT_FALSE(slot);
  EXPECT_EQ(slot.error().code, ErrorCode::kNotFound);
}

TEST_F(FilterTest, ARestrictedSessionSeesOnlyPlainDumpableProcessesOfItsOwner) {
  const WorkloadOptions as_user{.uid = kUser, .gid = kUser};
  const Workload own({"spin"}, as_user);
  const Workload hidden({"not-dumpable"}, as_user);
  const Workload strange({"spin"}, {.uid = kOther, .gid = kOther});
  const Workload of_other_group({"spin"}, {.uid = kUser, .gid = kOther});
  const Workload capable({"spin"}, {.uid = kUser, .gid = kUser, .capable = true});
  const Workload apart({"spin"}, {.uid = kUser, .gid = kUser, .own_user_namespace = true});
  const Workload of_root({"spin"});
  Target target = target_of_all();
  target.restrict_to = ProcessOwner{.uid = kUser, .gid = kUser};
  const SessionSlot slot = start(target);
  const SessionSlot everything = start(target_of_all());
  // The unrestricted session shows that the other processes ran.
  collect(own.pid(), 50);
  for (const Workload* other : {&hidden, &strange, &of_other_group, &capable, &apart, &of_root}) {
    collect(other->pid(), 50);
  }
  stop_balanced(slot);
  stop_balanced(everything);
  EXPECT_EQ(sampled(sink_, 1U << slot), std::set{own.pid()});
}

TEST_F(FilterTest, EachSampleHasTheOwnerOfItsProcess) {
  const Workload own({"spin"}, {.uid = kUser, .gid = kUser});
  const Workload of_other_group({"spin"}, {.uid = kUser, .gid = kOther});
  const Workload hidden({"not-dumpable"}, {.uid = kUser, .gid = kUser});
  const Workload capable({"spin"}, {.uid = kUser, .gid = kUser, .capable = true});
  const Workload apart({"spin"}, {.uid = kUser, .gid = kUser, .own_user_namespace = true});
  const Workload of_root({"spin"});
  const SessionSlot slot = start(target_of_all());
  for (const Workload* each : {&own, &of_other_group, &hidden, &capable, &apart, &of_root}) {
    collect(each->pid(), 20);
  }
  stop_balanced(slot);
  const auto owners = [this](const Workload& workload) {
    std::set<std::optional<ProcessOwner>> found;
    for (const StoredSample* sample : sink_.of_process(workload.pid())) {
      found.insert(sample->view.owner);
    }
    return found;
  };
  using Owners = std::set<std::optional<ProcessOwner>>;
  EXPECT_EQ(owners(own), (Owners{ProcessOwner{.uid = kUser, .gid = kUser}}));
  EXPECT_EQ(owners(of_other_group), (Owners{ProcessOwner{.uid = kUser, .gid = kOther}}));
  for (const Workload* nobodys : {&hidden, &capable, &apart, &of_root}) {
    EXPECT_EQ(owners(*nobodys), Owners{std::nullopt});
  }
}

TEST_F(FilterTest, ChildrenForkedLaterAreFollowed) {
  const Workload workload({"fork-later"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 10);
  workload.signal(SIGUSR1);
  collect_until([&] { return sampled(sink_).size() == 2; });
  stop_balanced(slot);
}

TEST_F(FilterTest, RunningChildrenAreFollowed) {
  const Workload workload({"parent"});
  const auto child = static_cast<std::uint32_t>(std::stoul(workload.said()));
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(child, 50);
  stop_balanced(slot);
  EXPECT_EQ(sink_.processes.back().parent_tgid, workload.pid());
}

TEST_F(FilterTest, ChildrenAreNotFollowedIfTheTargetSaysSo) {
  const Workload adopted({"parent"});
  const Workload later({"fork-later"});
  Target target;
  target.pids = {adopted.pid(), later.pid()};
  target.follow_children = false;
  const SessionSlot slot = start(target);
  const SessionSlot everything = start(target_of_all());
  later.signal(SIGUSR1);
  // Collects until the other session has seen a child of each.
  collect_until([&] {
    std::set<std::uint32_t> parents;
    for (const StoredProcess& process : sink_.processes) parents.insert(process.parent_tgid);
    return parents.contains(adopted.pid()) && parents.contains(later.pid());
  });
  collect_for(milliseconds(200));
  stop_balanced(slot);
  stop_balanced(everything);
  for (const std::uint32_t tgid : sampled(sink_, 1U << slot)) {
    EXPECT_TRUE(tgid == adopted.pid() || tgid == later.pid()) << tgid;
  }
}

TEST_F(FilterTest, WithFromExecNothingIsSampledBeforeTheExec) {
  const Workload workload({"exec-later"});
  Target target = target_of_pid(workload.pid());
  target.from_exec = true;
  const SessionSlot slot = start(target);
  const SessionSlot whole = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 50);
  EXPECT_EQ(sampler_->slot_ledger(slot).taken, 0U);
  workload.signal(SIGUSR1);
  collect_until([&] { return sampler_->slot_ledger(slot).received >= 50; });
  stop_balanced(slot);
  stop_balanced(whole);
  std::set<std::uint32_t> images;
  for (const StoredSample& sample : sink_.samples) {
    if ((sample.view.sessions >> slot & 1) != 0) images.insert(sample.view.process.exec_id);
  }
  EXPECT_EQ(images.size(), 1U);
  EXPECT_GT(*images.begin(), sink_.samples.front().view.process.exec_id);
}

TEST_F(FilterTest, SessionsOfDifferentTargetsAndEventsKeepTheirSamplesApart) {
  const Workload first({"spin"});
  const Workload second({"spin"});
  const SessionSlot slow = start(target_of_pid(first.pid()), 199);
  const SessionSlot fast = start(target_of_pid(second.pid()), 999);
  collect(first.pid(), 50);
  collect(second.pid(), 50);
  const SlotLedger of_slow = stop_balanced(slow);
  const SlotLedger of_fast = stop_balanced(fast);
  EXPECT_EQ(sampled(sink_, 1U << slow), std::set{first.pid()});
  EXPECT_EQ(sampled(sink_, 1U << fast), std::set{second.pid()});
  for (const StoredSample& sample : sink_.samples) {
    EXPECT_EQ(sample.view.period,
              sample.view.process.tgid == first.pid() ? 5'025'125U : 1'001'001U);
  }
  EXPECT_EQ(of_slow.received + of_fast.received, sink_.samples.size());
}

std::size_t open_perf_events() {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += fs::read_symlink(entry, gone) == "anon_inode:[perf_event]";
  }
  return count;
}

TEST_F(FilterTest, SessionsOfOneEventShareItAndItIsClosedWithTheLast) {
  const Workload workload({"spin"});
  EXPECT_EQ(open_perf_events(), 0U);
  const SessionSlot first = start(target_of_pid(workload.pid()));
  const std::size_t of_one = open_perf_events();
  const SessionSlot second = start(target_of_all());
  EXPECT_EQ(open_perf_events(), of_one);
  collect(workload.pid(), 50);
  stop_balanced(first);
  EXPECT_EQ(open_perf_events(), of_one);
  stop_balanced(second);
  EXPECT_EQ(open_perf_events(), 0U);
  const std::uint32_t both = 1U << first | 1U << second;
  EXPECT_TRUE(std::ranges::any_of(
      sink_.samples, [&](const StoredSample& sample) { return sample.view.sessions == both; }));
}

TEST_F(FilterTest, ASessionByPidsEndsWithTheLastOfItsProcesses) {
  Workload workload({"parent"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  const SessionSlot all = start(target_of_all());
  EXPECT_TRUE(sampler_->has_targets(slot));
  workload.end();
  collect_until([&] { return !sampler_->has_targets(slot); });
  EXPECT_TRUE(sampler_->has_targets(all));
  stop_balanced(slot);
  stop_balanced(all);
}

TEST_F(FilterTest, AZombieProcessHasEnded) {
  const Workload workload({"parent"});
  const auto child = static_cast<std::uint32_t>(std::stoul(workload.said()));
  const SessionSlot slot = start(target_of_pid(child));
  EXPECT_TRUE(sampler_->has_targets(slot));
  ::kill(static_cast<pid_t>(child), SIGKILL);
  collect_until([&] { return !sampler_->has_targets(slot); });
  EXPECT_TRUE(fs::exists("/proc/" + std::to_string(child)));
  stop_balanced(slot);
}

TEST_F(FilterTest, AReusedSlotStartsWithZeroCounts) {
  const Workload workload({"spin"});
  const SessionSlot first = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 100);
  const SlotLedger of_first = stop_balanced(first);
  const SessionSlot again = start(target_of_pid(workload.pid()));
  EXPECT_EQ(again, first);
  EXPECT_EQ(sampler_->slot_ledger(again).received, 0U);
  collect(workload.pid(), of_first.received + 50);
  const SlotLedger of_second = stop_balanced(again);
  EXPECT_EQ(of_first.received + of_second.received, sink_.samples.size());
}

TEST_F(FilterTest, AllRecordsAreSentAgainForALaterSession) {
  const Workload workload({"spin"});
  for (std::size_t session = 1; session <= 2; ++session) {
    const SessionSlot slot = start(target_of_pid(workload.pid()));
    collect(workload.pid(), session * 100);
    stop_balanced(slot);
    sink_.forget();
  }
  EXPECT_EQ(sink_.unannounced(), 0U);
}

Target target_of_window() {
  Target target = target_of_all();
  target.is_window = true;
  return target;
}

Target target_of_restricted(uid_t user = kUser) {
  Target target = target_of_all();
  target.restrict_to = ProcessOwner{.uid = user, .gid = user};
  return target;
}

TEST_F(FilterTest, TwentyEightSessionsRunAtOnceAndTheNextIsRefused) {
  std::vector<SessionSlot> slots;
  for (int i = 0; i < PROFD_MAX_SESSIONS - 4; ++i) slots.push_back(start(target_of_all()));
  const auto refused = sampler_->start(event_of("cpu-clock", 999), target_of_all());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  collect_until([&] { return sink_.samples.size() > 20; });
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

TEST_F(FilterTest, RestrictedSessionsHaveHalfOfTheSlots) {
  std::vector<SessionSlot> slots;
  for (int i = 0; i < PROFD_MAX_SESSIONS / 2; ++i) slots.push_back(start(target_of_restricted()));
  const auto refused = sampler_->start(event_of("cpu-clock", 999), target_of_restricted());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  slots.push_back(start(target_of_all()));
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

TEST_F(FilterTest, RestrictedSessionsHaveHalfOfTheSetsOfEventsAndShareNoOther) {
  std::vector<SessionSlot> slots;
  slots.push_back(start(target_of_restricted(kUser), 50));
  slots.push_back(start(target_of_restricted(kUser), 51));
  slots.push_back(start(target_of_restricted(kOther), 52));
  slots.push_back(start(target_of_all(), 98));
  const auto refused = sampler_->start(event_of("cpu-clock", 98), target_of_restricted(kThird));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  EXPECT_EQ(refused.error().message,
            "all sets of events of unprivileged users are in use: cpu-clock at 52 Hz, cpu-clock "
            "at 51 Hz, cpu-clock at 50 Hz");
  EXPECT_EQ(refused.error().hint,
            "use one of these events or cpu at 99 Hz, or try again when a session has ended");
  slots.push_back(start(target_of_restricted(kThird), 50));  // shares the set
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

TEST_F(FilterTest, ASetOfEventsIsKeptForTheDefaultEventOfAllUsers) {
  std::vector<SessionSlot> slots;
  slots.push_back(start(target_of_all(), 99));  // a set of root's
  slots.push_back(start(target_of_restricted(kUser), 50));
  slots.push_back(start(target_of_restricted(kUser), 51));
  slots.push_back(start(target_of_restricted(kOther), 52));
  EXPECT_FALSE(sampler_->start(event_of("cpu-clock", 53), target_of_restricted(kThird)));
  for (const uid_t user : {kUser, kOther, kThird, kUser}) {
    slots.push_back(start(target_of_restricted(user), event_of("cpu", 0)));
  }
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

TEST_F(FilterTest, OneUserHasSessionsInTwoOtherSetsOfEventsAtMost) {
  std::vector<SessionSlot> slots;
  slots.push_back(start(target_of_restricted(kUser), 50));
  slots.push_back(start(target_of_restricted(kUser), event_of("page-faults", 0, 1000)));
  slots.push_back(start(target_of_restricted(kUser), 50));
  const auto refused = sampler_->start(event_of("cpu-clock", 52), target_of_restricted(kUser));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  const std::string user = std::to_string(kUser);
  EXPECT_EQ(refused.error().message,
            "sessions of user " + user +
                " sample page-faults with a period of 1000, cpu-clock at 50 Hz, and one user has "
                "2 events or frequencies at once besides cpu at 99 Hz");
  EXPECT_EQ(refused.error().hint,
            "stop one of these sessions, or use one of these events or cpu at 99 Hz");
  // By sharing another user's, it would keep that one's set.
  slots.push_back(start(target_of_restricted(kOther), 52));
  EXPECT_FALSE(sampler_->start(event_of("cpu-clock", 52), target_of_restricted(kUser)));
  stop_balanced(slots[1]);
  slots[1] = start(target_of_restricted(kUser), 52);
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

TEST_F(FilterTest, SubordinateUidsHaveTheSetsOfEventsOfTheirUser) {
  const fs::path directory = fs::temp_directory_path() / ("profd-owners-" + std::to_string(kUser));
  fs::create_directories(directory);
  std::ofstream(directory / "subuid") << kUser << ":" << kOther << ":1\n";
  open({.owners = UidOwners(directory / "subuid", directory / "passwd")});
  std::vector<SessionSlot> slots;
  slots.push_back(start(target_of_restricted(kUser), 50));
  slots.push_back(start(target_of_restricted(kOther), 51));
  for (const uid_t user : {kUser, kOther}) {
    const auto refused = sampler_->start(event_of("cpu-clock", 52), target_of_restricted(user));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  }
  slots.push_back(start(target_of_restricted(kThird), 52));
  for (const SessionSlot slot : slots) stop_balanced(slot);
  fs::remove_all(directory);
}

TEST_F(FilterTest, AWindowHasASetOfEventsAndTwoSlotsThatNoSessionTakes) {
  std::vector<SessionSlot> slots;
  for (unsigned i = 0; i < PROFD_MAX_EVENT_SETS - 1; ++i)
    slots.push_back(start(target_of_all(), 50 + i));
  const auto refused = sampler_->start(event_of("cpu-clock", 99), target_of_all());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
  while (slots.size() < PROFD_MAX_SESSIONS - 4) slots.push_back(start(target_of_all(), 50));
  const SessionSlot window = start(target_of_window(), 99);
  const auto next = sampler_->move_to_new_slot(window);
  ASSERT_TRUE(next) << next.error().message;
  stop_balanced(window);
  stop_balanced(*next);
  for (const SessionSlot slot : slots) stop_balanced(slot);
}

// Some sandboxes hide their init process from BPF iterators although it is alive.
TEST_F(FilterTest, TheInitProcessIsATargetOrTheErrorSaysWhyNot) {
  const auto slot = start_and_begin(*sampler_, event_of("cpu-clock", 99), target_of_pid(1));
  if (slot) {
    stop_balanced(*slot);
  } else {
    EXPECT_EQ(slot.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(slot.error().message,
              "could not find process 1: the kernel hides it from BPF iterators");
  }
}

TEST_F(FilterTest, ARepeatedPidIsOneTarget) {
  const Workload workload({"spin"});
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{.rlim_cur = 256, .rlim_max = limit.rlim_max};
  Target target;
  target.pids.assign(20'000, workload.pid());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto slot = start_and_begin(*sampler_, event_of("cpu-clock", 999), target);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(slot) << slot.error().message;
  stop_balanced(*slot);
}

}  // namespace
}  // namespace profd::test
