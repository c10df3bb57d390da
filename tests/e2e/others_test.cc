// What callers without rights may do: their own processes and nothing else.

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/gperftools_reader.h"
#include "tests/e2e/lifecycle_fixture.h"
#include "tests/user_namespace.h"

namespace profd::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// In a mount namespace of this process. A user can do the same in a user namespace of his own.
void mount_at(const std::filesystem::path& file, const std::filesystem::path& other_path) {
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  const int root = test::leave_chroot();
  if (root < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::fchdir(root) != 0 || ::chroot(".") != 0 ||
      ::mount(file.c_str(), other_path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    ::_exit(126);
  }
  ::close(root);
}

class OthersTest : public LifecycleTest {
 protected:
  Ended as(uid_t uid, const Args& args) {
    Process::Options options;
    options.uid = uid;
    options.directory = directory_.path();
    return daemon_.profctl(args, options);
  }

  void SetUp() override {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(01777));
  }

  // The bytes and names of all files of a result, unpacked.
  static std::string everything_in(const std::filesystem::path& result) {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(result)) {
      all += entry.path().string() + "\n";
      if (!entry.is_regular_file()) continue;
      const bool is_packed = entry.path().extension() == ".gz";
      all += is_packed ? run({"gzip", "-dc", entry.path()}).out : slurp(entry.path());
    }
    return all;
  }

  // The program itself: Process starts a copy of it for another user.
  static Args shell_exec(const std::filesystem::path& program) {
    return {"sh", "-c", "exec '" + program.string() + "' 600"};
  }

  static Process::Options owner(uid_t uid) {
    Process::Options options;
    options.uid = uid;
    return options;
  }
};

TEST_F(OthersTest, ProfileTheirOwnProcessesWithoutKernelAddresses) {
  Process mine({workload("reader"), "600"}, owner(kSomebody));
  const Ended started = as(kSomebody, {"start", "-F", "499", "--pid", std::to_string(mine.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  wait_for_samples(id, 200);
  const Ended stopped = as(kSomebody, {"stop", id, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  struct stat status {};
  ASSERT_EQ(::stat((output_ / summary.profiles[0].path).c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kSomebody);
  for (const Report& report :
       {go_pprof(output_ / summary.profiles[0].path),
        perl_pprof(workload("reader"), output_ / summary.profiles[0].path)}) {
    ASSERT_TRUE(report.flat.contains("[kernel]")) << report.text;
    EXPECT_GE(report.flat.at("[kernel]"), 80) << report.text;
    EXPECT_FALSE(report.cumulative.contains("vfs_read")) << report.text;
  }
  const Result<Profile> profile = decode_gperftools(slurp(output_ / summary.profiles[0].path));
  ASSERT_TRUE(profile);
  std::vector<std::uint64_t> kernel;
  for (const Profile::Record& record : profile->records()) {
    for (const std::uint64_t pc : profile->pcs(record)) {
      if (pc >> 48 != 0) kernel.push_back(pc);
    }
  }
  std::ranges::sort(kernel);
  kernel.erase(std::ranges::unique(kernel).begin(), kernel.end());
  EXPECT_LE(kernel.size(), 2u) << "one address, as leaf and as caller";
}

TEST_F(OthersTest, AreRefusedEverythingElse) {
  Process theirs({workload("shares"), "600"}, owner(kSomebody));
  const std::string id = start({"--pid", busy_pid_});
  const Args refused[] = {
      {"start", "--pid", busy_pid_},
      {"start", "--pid", std::to_string(theirs.pid())},
      {"start", "-a"},
      {"start", "--uid", "0"},
      {"stop", id, "-o", output_},
      {"dump", id, "-o", output_},
      {"record", "--pid", busy_pid_, "-d", "1", "-o", output_},
  };
  for (const Args& args : refused) {
    const Ended ended = as(kNobody, args);
    EXPECT_EQ(ended.status, 5) << ::testing::PrintToString(args) << ended.err;
    EXPECT_THAT(ended.err, Not(IsEmpty()));
  }
  EXPECT_EQ(as(kNobody, {"list", "--json"}).out, "{\"sessions\":[]}\n");
  EXPECT_FALSE(std::filesystem::exists(output_ / "session.json"));
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
}

TEST_F(OthersTest, SeeOnlyTheirOwnProcessesBehindANameThatOthersBear) {
  Process mine({workload("shares"), "600"}, owner(kSomebody));
  const Ended started = as(kSomebody, {"start", "-F", "499", "-n", "shares"});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  wait_for_samples(id, 100);
  ASSERT_EQ(as(kSomebody, {"stop", id, "-o", output_}).status, 0);
  const SessionSummary summary = read_summary(output_);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  EXPECT_EQ(summary.profiles[0].pid, static_cast<std::uint32_t>(mine.pid()));
}

// Inside, their program has the pid of another one outside.
TEST_F(OthersTest, GiveNoPidsFromAPidNamespaceOfTheirOwn) {
  const std::filesystem::path& directory = directory_.path();
  std::filesystem::copy_file(workload("shares"), directory / "shares");
  std::filesystem::copy_file(daemon_.profctl_command({}).front(), directory / "profctl");
  std::ofstream(directory / "script") << R"(
    ./shares 600 &
    ./profctl start --pid $!; echo status $?
    ./profctl record -- ./shares 1; echo status $?
    ./profctl start -F 499 -n shares; echo status $?
    wait)";
  Process::Options here;
  here.directory = directory;
  here.environment["PROFD_SOCKET"] = daemon_.socket();
  for (const std::string uid : {"4716", "0"}) {
    Process inside({"unshare", "--pid", "--fork", "--kill-child", "setpriv", "--reuid", uid,
                    "--regid", uid, "--clear-groups", "sh", "script"},
                   here);
    ASSERT_TRUE(eventually([&] { return inside.out().ends_with("status 0\n"); }))
        << inside.out() << inside.err();
    EXPECT_THAT(inside.out(), MatchesRegex("status 2\nstatus 125\n[0-9a-f]+\nstatus 0\n"));
    EXPECT_THAT(inside.err(), HasSubstr("the caller is in another PID namespace"));
    const std::size_t id = inside.out().find("125") + 4;
    wait_for_samples(inside.out().substr(id, inside.out().find('\n', id) - id), 50);
  }
}

// Another user has mapped their program first, at a path of a mount namespace of his own.
TEST_F(OthersTest, DoNotSeeThePathThatAFileHasInTheMountsOfAnotherUser) {
  const std::filesystem::path program = directory_.path() / "theirs";
  std::filesystem::copy_file(workload("shares"), program);
  const std::filesystem::path secret = directory_.path() / "secret-path";
  std::ofstream(secret).close();
  std::filesystem::permissions(secret, std::filesystem::perms(0644));
  Process::Options in_own_mounts = owner(kNobody);
  in_own_mounts.before_exec = [&] { mount_at(program, secret); };
  const Process first(shell_exec(secret), in_own_mounts);
  const std::string of_root = start({"--pid", std::to_string(first.pid())});
  wait_for_samples(of_root, 50);
  ASSERT_EQ(daemon_.profctl({"stop", of_root, "-o", output_}).status, 0);
  EXPECT_THAT(everything_in(output_), HasSubstr("secret-path")) << "root sees it";

  const Process mine(shell_exec(program), owner(kSomebody));
  const Ended started = as(kSomebody, {"start", "-F", "499", "--pid", std::to_string(mine.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  wait_for_samples(id, 100);
  const std::filesystem::path theirs = directory_.path() / "of-somebody";
  ASSERT_EQ(as(kSomebody, {"dump", id, "-o", theirs}).status, 0);
  ASSERT_EQ(as(kSomebody, {"stop", id, "-o", theirs / "one.pb.gz"}).status, 0);
  const std::string all = everything_in(theirs);
  EXPECT_THAT(all, Not(HasSubstr("secret-path")));
  EXPECT_THAT(all, HasSubstr("hot_sixty")) << "its functions have names";
}

TEST_F(OthersTest, HoldFourSessionsAtMost) {
  Process mine({workload("shares"), "600"}, owner(kSomebody));
  const Args args{"start", "--pid", std::to_string(mine.pid())};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(as(kSomebody, args).status, 0);
  const Ended fifth = as(kSomebody, args);
  EXPECT_NE(fifth.status, 0);
  EXPECT_THAT(fifth.err, HasSubstr("4"));
  EXPECT_EQ(start({"--pid", busy_pid_}).empty(), false);
}

}  // namespace
}  // namespace profd::e2e
