// Real processes through profd and profctl, read by both pprofs.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>

#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Pair;
using ::testing::SizeIs;

// Percent points a share may be off: four standard deviations of 1,500 samples.
constexpr double kSharePoints = 5;

using ProfileTest = RecordingTest;

void expect_shares(const Report& report, const std::string& which) {
  const std::pair<const char*, double> expected[] = {
      {"hot_sixty", 60}, {"hot_thirty", 30}, {"hot_ten", 10}};
  for (const auto& [name, percent] : expected) {
    ASSERT_TRUE(report.flat.contains(name)) << which << "\n" << report.text;
    EXPECT_NEAR(report.flat.at(name), percent, kSharePoints) << which << "\n" << report.text;
  }
  EXPECT_GE(report.cumulative.at("caller"), 95) << which << "\n" << report.text;
}

TEST_F(ProfileTest, SharesAndTimeOfAProgramAreThoseOfTheProgram) {
  const std::string program = workload("shares");
  const SessionSummary summary = record({"-F", "999"}, {program, "3"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "shares");
  ASSERT_THAT(profiles, SizeIs(1));
  expect_shares(go_pprof(file(profiles[0])), "Go");
  expect_shares(perl_pprof(program, file(profiles[0])), "Perl");

  const double cpu_us = std::stod(recorded_.out);  // record passes the command's stdout on
  const double profiled_us = static_cast<double>(profiles[0].samples * summary.period_us);
  EXPECT_NEAR(profiled_us / cpu_us, 1, 0.1);
}

TEST_F(ProfileTest, ThreadsAreInTheirProcessesProfile) {
  const std::string program = workload("shares");
  const SessionSummary summary = record({"-F", "999"}, {program, "1", "3"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "shares");
  ASSERT_THAT(profiles, SizeIs(1));
  const Report report = go_pprof(file(profiles[0]));
  expect_shares(report, "Go");
  EXPECT_GE(report.cumulative.at("work"), 95) << report.text;
  const double profiled_us = static_cast<double>(profiles[0].samples * summary.period_us);
  EXPECT_NEAR(profiled_us / std::stod(recorded_.out), 1, 0.1);
}

TEST_F(ProfileTest, AForkedChildHasAProfileOfItsOwn) {
  const std::string program = workload("family");
  const SessionSummary summary = record({"-F", "499"}, {program, "1"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "family");
  ASSERT_THAT(profiles, SizeIs(2));
  EXPECT_NE(profiles[0].pid, profiles[1].pid);
  Shares both;
  for (const ProfileSummary& profile : profiles) {
    const Report report = go_pprof(file(profile));
    const bool parent = report.cumulative.contains("parent_work");
    EXPECT_NE(parent, report.cumulative.contains("child_work")) << report.text;
    both[parent ? "parent" : "child"] = report.cumulative.at(parent ? "parent_work" : "child_work");
  }
  EXPECT_GE(both["parent"], 90);
  EXPECT_GE(both["child"], 90);
}

TEST_F(ProfileTest, ChildrenAreLeftOutWhenAskedTo) {
  const SessionSummary summary = record({"-F", "499", "--no-children"}, {workload("family"), "1"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "family");
  ASSERT_THAT(profiles, SizeIs(1));
  EXPECT_TRUE(go_pprof(file(profiles[0])).cumulative.contains("parent_work"));
}

TEST_F(ProfileTest, AnExecStartsASecondProfileOfTheSamePid) {
  const SessionSummary summary = record({"-F", "499"}, {workload("family"), "1", "exec"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "family");
  ASSERT_THAT(profiles, SizeIs(2));
  EXPECT_EQ(profiles[0].pid, profiles[1].pid);
  const std::string pid = std::to_string(profiles[0].pid);
  EXPECT_EQ(profiles[0].path, "family." + pid + ".prof");
  EXPECT_EQ(profiles[1].path, "family." + pid + ".2.prof");
  EXPECT_TRUE(go_pprof(file(profiles[0])).cumulative.contains("before_exec"));
  EXPECT_TRUE(go_pprof(file(profiles[1])).cumulative.contains("after_exec"));
}

TEST_F(ProfileTest, ProcessesOfTwentyMillisecondsAreNamed) {
  const std::string program = workload("family");
  const SessionSummary summary = record({"-F", "499"}, {program, "2", "storm"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "family");
  ASSERT_THAT(profiles, SizeIs(Ge(20u)));
  std::vector<std::filesystem::path> files;
  for (const ProfileSummary& profile : profiles) {
    if (profile.user_samples < 5) continue;  // the parent, which only waits
    files.push_back(file(profile));
  }
  ASSERT_THAT(files, SizeIs(Ge(10u)));
  const Report report = go_pprof(files);
  ASSERT_TRUE(report.cumulative.contains("brief_work")) << report.text;
  // The rest is exec, page faults of the start and exit.
  EXPECT_GE(report.cumulative.at("brief_work"), 85) << report.text;
}

TEST_F(ProfileTest, KernelFunctionsAreNamedInBothPprofs) {
  const std::string program = workload("reader");
  const SessionSummary summary = record({"-F", "499"}, {program, "1"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "reader");
  ASSERT_THAT(profiles, SizeIs(1));
  for (const Report& report :
       {go_pprof(file(profiles[0])), perl_pprof(program, file(profiles[0]))}) {
    // Which functions clear user memory differs by kernel; the way there does not.
    for (const char* name : {"read_zeros", "ksys_read", "vfs_read"}) {
      ASSERT_TRUE(report.cumulative.contains(name)) << name << "\n" << report.text;
      EXPECT_GE(report.cumulative.at(name), 80) << name << "\n" << report.text;
    }
  }
}

TEST_F(ProfileTest, ADeletedBinaryIsNamedByItsImage) {
  const std::filesystem::path program = directory_.path() / "deleted";
  std::filesystem::copy_file(workload("shares"), program);
  Process process({program, "60"});
  const Ended started =
      daemon_.profctl({"start", "-F", "1999", "--pid", std::to_string(process.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  std::filesystem::remove(program);
  const std::string id = started.out.substr(0, started.out.find('\n'));
  ASSERT_TRUE(eventually([&] {
    const Ended listed = daemon_.profctl({"list", "--json"});
    const auto sessions = parse_session_list(listed.out);
    return sessions && !sessions->empty() && (*sessions)[0].samples >= 1500;
  }));
  const Ended stopped = daemon_.profctl({"stop", id, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  expect_shares(go_pprof(file(summary.profiles[0])), "Go");
  expect_shares(perl_pprof(workload("shares"), file(summary.profiles[0])), "Perl");
}

TEST_F(ProfileTest, APathWithSpacesIsNamed) {
  const std::filesystem::path program = directory_.path() / "a path" / "with spaces";
  std::filesystem::create_directory(program.parent_path());
  std::filesystem::copy_file(workload("shares"), program);
  const SessionSummary summary = record({"-F", "1999"}, {program, "1"});
  const std::vector<ProfileSummary> profiles = profiles_of(summary, "with spaces");
  ASSERT_THAT(profiles, SizeIs(1));
  EXPECT_THAT(profiles[0].path, ::testing::StartsWith("with_spaces."));
  expect_shares(go_pprof(file(profiles[0])), "Go");
  expect_shares(perl_pprof(workload("shares"), file(profiles[0])), "Perl");
}

// A root file system of its own: the program, its loader and libraries in a tmpfs that only the
// child's mount namespace has.
void enter_own_root(const std::filesystem::path& root) {
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  // In a chroot "/" is no mount: then there is nothing to make private.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 && errno != EINVAL) {
    ::_exit(126);
  }
  if (::mount("none", root.c_str(), "tmpfs", 0, nullptr) != 0) ::_exit(126);
  const auto options = std::filesystem::copy_options::recursive;
  const std::filesystem::path program = workload("shares");
  std::filesystem::create_directories(root / "bin");
  std::filesystem::copy_file(program, root / "bin" / "isolated");
  for (const char* library : {"/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"}) {
    const std::filesystem::path copy = root / std::filesystem::path(library).relative_path();
    std::filesystem::create_directories(copy.parent_path());
    std::filesystem::copy_file(library, copy, options);
  }
  if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) ::_exit(126);
}

TEST_F(ProfileTest, AProgramInAnotherMountNamespaceAndChrootIsNamed) {
  const std::filesystem::path root = directory_.path() / "root";
  std::filesystem::create_directory(root);
  Process::Options options;
  options.before_exec = [&] { enter_own_root(root); };
  Process process({"/bin/isolated", "60"}, options);
  ASSERT_TRUE(eventually([&] {
    const std::filesystem::path exe = "/proc/" + std::to_string(process.pid()) + "/exe";
    std::error_code ignored;
    return std::filesystem::read_symlink(exe, ignored).filename() == "isolated";
  }));
  const Ended recorded = daemon_.profctl(
      {"record", "-F", "1999", "-d", "2", "--pid", std::to_string(process.pid()), "-o", output_});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  expect_shares(go_pprof(file(summary.profiles[0])), "Go");
  expect_shares(perl_pprof(workload("shares"), file(summary.profiles[0])), "Perl");
}

TEST_F(ProfileTest, TheWholeHostIsSampledWithKernelThreads) {
  const Process busy({workload("reader"), "60"});
  Ended recorded;
  {
    // Kernel threads write the file to the disk, on which the build is.
    const Process writes({"sh", "-c",
                          "while sync; do dd if=/dev/zero of=" BUILD_DIRECTORY
                          "/written_to_disk bs=1M count=64 status=none; done"});
    recorded = daemon_.profctl({"record", "-a", "-F", "499", "-d", "10", "-o", output_});
  }
  std::filesystem::remove(BUILD_DIRECTORY "/written_to_disk");
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  const auto pid = static_cast<std::uint32_t>(busy.pid());
  EXPECT_EQ(std::ranges::count(summary.profiles, pid, &ProfileSummary::pid), 1);
  const bool kernel_threads =
      std::ranges::any_of(summary.profiles, [](const ProfileSummary& profile) {
        return profile.user_samples == 0 && profile.kernel_only_samples > 0;
      });
  EXPECT_TRUE(kernel_threads);
}

// As with perf: the command says how long, and the whole host is recorded.
TEST_F(ProfileTest, TheWholeHostIsSampledForAsLongAsACommandRuns) {
  Process busy({workload("shares"), "60"});
  const SessionSummary summary = record({"-a", "-F", "499"}, {"sleep", "2"});
  EXPECT_GE(summary.seconds, 2);
  const auto pid = static_cast<std::uint32_t>(busy.pid());
  const auto profile = std::ranges::find(summary.profiles, pid, &ProfileSummary::pid);
  ASSERT_NE(profile, summary.profiles.end());
  EXPECT_GT(profile->samples, 0U);
  EXPECT_THAT(go_pprof(file(*profile)).flat, Contains(Key("hot_sixty")));
  EXPECT_TRUE(busy.running());  // the recording did not wait for it
}

TEST_F(ProfileTest, AnEventThatIsNoTimeHasItsOwnUnit) {
  const SessionSummary summary =
      record({"-e", "page-faults", "--period", "10"}, {workload("family"), "1", "storm"});
  EXPECT_EQ(summary.event, "page-faults");
  EXPECT_EQ(summary.period_unit, "page-faults");
  EXPECT_EQ(summary.period_us, 10u);
  EXPECT_GT(summary.ledger.written,
            50u);  // each of the children faults a hundred times at its start
}

}  // namespace
}  // namespace profd::e2e
