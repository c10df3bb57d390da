// The kernel is the oracle of its own rule: a process with the caller's ids reads a file that the
// ptrace check guards, and the answers must be equal. Needs root to make processes of other users.

#include "daemon/sessions/authorization.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/user_namespace.h"

namespace profd {
namespace {

constexpr uid_t kAliceUid = 4711;
constexpr uid_t kBobUid = 4712;
constexpr gid_t kStaff = 4721;
constexpr gid_t kOthers = 4722;

struct Ids {
  std::array<uid_t, 3> uids;  // real, effective, saved
  std::array<gid_t, 3> gids;
  bool keeps_capabilities = false;
  bool own_user_namespace = false;  // without capabilities in it
};

constexpr Ids kAllAlice{{kAliceUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kStaff}};
constexpr Ids kCapableAlice{{kAliceUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kStaff}, true};
constexpr Ids kRemoteAlice{
    {kAliceUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kStaff}, false, true};

// A process in a new user namespace has all of them.
bool drop_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
}

bool become(const Ids& ids) {
  const int root = ids.own_user_namespace ? test::leave_chroot() : -1;
  return ::prctl(PR_SET_KEEPCAPS, ids.keeps_capabilities ? 1 : 0) == 0 &&
         ::setresgid(ids.gids[0], ids.gids[1], ids.gids[2]) == 0 &&
         ::setresuid(ids.uids[0], ids.uids[1], ids.uids[2]) == 0 &&
         (!ids.own_user_namespace || (test::enter_user_namespace(root) && drop_capabilities()));
}

// A process with these ids that waits.
class Sitter {
 public:
  Sitter(const Ids& ids, bool dumpable) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
    const UniqueFd ready(ends[0]);
    UniqueFd ready_end(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // A change of ids clears the dumpable flag, so it is set after it.
      const bool became = become(ids) && ::prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0) == 0;
      if (became && ::write(ready_end.get(), "x", 1) == 1) ::pause();
      ::_exit(1);
    }
    ready_end.reset();
    char byte = 0;
    if (::read(ready.get(), &byte, 1) != 1)
      throw std::runtime_error("these tests need root, and user namespaces");
  }
  Sitter(const Sitter&) = delete;
  Sitter& operator=(const Sitter&) = delete;
  ~Sitter() { end(); }

  [[nodiscard]] pid_t pid() const { return pid_; }

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

// The kernel checks PTRACE_MODE_READ for /proc/PID/exe.
bool kernel_lets(const Caller& caller, pid_t pid) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Ids ids{{caller.uid, caller.uid, caller.uid}, {caller.gid, caller.gid, caller.gid}};
    std::array<char, 256> target{};
    const std::string path = "/proc/" + std::to_string(pid) + "/exe";
    const bool read = become(ids) && ::readlink(path.c_str(), target.data(), target.size()) > 0;
    ::_exit(read ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Caller caller_of(uid_t uid, gid_t gid) {
  return {.uid = uid, .gid = gid, .pid = 1, .privileged = false};
}

TEST(Authorization, IsTheKernelsRuleForEveryMixOfIds) {
  const Caller alice = caller_of(kAliceUid, kStaff);
  struct Case {
    const char* what;
    Ids ids;
    bool dumpable;
    bool allowed;
  };
  const Case table[] = {
      {"her own", kAllAlice, true, true},
      {"her own, not dumpable", kAllAlice, false, false},
      {"her own, with capabilities", kCapableAlice, true, false},
      {"another user's", {{kBobUid, kBobUid, kBobUid}, {kStaff, kStaff, kStaff}}, true, false},
      {"root's", {{0, 0, 0}, {0, 0, 0}}, true, false},
      {"real uid another",
       {{kBobUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kStaff}},
       true,
       false},
      {"effective uid another",
       {{kAliceUid, kBobUid, kAliceUid}, {kStaff, kStaff, kStaff}},
       true,
       false},
      {"saved uid another",
       {{kAliceUid, kAliceUid, kBobUid}, {kStaff, kStaff, kStaff}},
       true,
       false},
      {"saved uid root", {{kAliceUid, kAliceUid, 0}, {kStaff, kStaff, kStaff}}, true, false},
      {"real gid another",
       {{kAliceUid, kAliceUid, kAliceUid}, {kOthers, kStaff, kStaff}},
       true,
       false},
      {"effective gid another",
       {{kAliceUid, kAliceUid, kAliceUid}, {kStaff, kOthers, kStaff}},
       true,
       false},
      {"saved gid another",
       {{kAliceUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kOthers}},
       true,
       false},
  };
  for (const Case& c : table) {
    const Sitter process(c.ids, c.dumpable);
    const auto decided = authorize_process(alice, process.pid());
    EXPECT_EQ(decided.has_value(), c.allowed) << c.what;
    EXPECT_EQ(decided.has_value(), kernel_lets(alice, process.pid())) << c.what;
    if (!decided) {
      EXPECT_EQ(decided.error().code, ErrorCode::kPermissionDenied) << c.what;
      EXPECT_NE(decided.error().message.find(std::to_string(process.pid())), std::string::npos);
      EXPECT_NE(decided.error().hint, "") << c.what;
    }
    const Caller privileged{.uid = kBobUid, .gid = kOthers, .pid = 1, .privileged = true};
    EXPECT_TRUE(authorize_process(privileged, process.pid())) << c.what;
  }
}

// Stricter than the kernel, which allows the namespace's owner: profd does not know the owner.
TEST(Authorization, AProcessInAnotherUserNamespaceIsRefused) {
  const Sitter process(kRemoteAlice, true);
  const auto decided = authorize_process(caller_of(kAliceUid, kStaff), process.pid());
  ASSERT_FALSE(decided);
  EXPECT_EQ(decided.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(decided.error().message.find("user namespace"), std::string::npos)
      << decided.error().message;
}

// A process of another PID namespace may have its socket.
TEST(Authorization, PidsOfACallerThatHasEndedAreRefused) {
  const Sitter process({{kAliceUid, kAliceUid, kAliceUid}, {kStaff, kStaff, kStaff}}, true);
  TargetRequest target;
  target.pids = {static_cast<std::uint32_t>(process.pid())};
  Caller caller = caller_of(kAliceUid, kStaff);
  caller.pid = ::getpid();
  EXPECT_TRUE(authorize_target(caller, target));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  caller.pid = child;
  const auto decided = authorize_target(caller, target);
  ASSERT_FALSE(decided);
  EXPECT_EQ(decided.error().code, ErrorCode::kInvalidArgument);
}

TEST(Authorization, ANameCanNotForgeTheIds) {
  // The name is before the ids in a process's status; the process inherits it from this thread.
  ::prctl(PR_SET_NAME, "a\nUid:\t4711\t47");
  const Sitter forger({{kBobUid, kBobUid, kBobUid}, {kOthers, kOthers, kOthers}}, true);
  ::prctl(PR_SET_NAME, "daemon_test");
  EXPECT_FALSE(authorize_process(caller_of(kAliceUid, kStaff), forger.pid()));
}

TEST(Authorization, AProcessThatDoesNotExistIsNotFoundForEveryCaller) {
  Sitter process(kAllAlice, true);
  const pid_t pid = process.pid();
  process.end();
  for (const bool privileged : {true, false}) {
    Caller caller = caller_of(kAliceUid, kStaff);
    caller.privileged = privileged;
    const auto decided = authorize_process(caller, pid);
    ASSERT_FALSE(decided);
    EXPECT_EQ(decided.error().code, ErrorCode::kNotFound);
  }
}

TEST(Authorization, TargetsOfOthersAreRefused) {
  const Caller alice = caller_of(kAliceUid, kStaff);
  const Sitter own(kAllAlice, true);
  const Sitter foreign({{kBobUid, kBobUid, kBobUid}, {kStaff, kStaff, kStaff}}, true);
  const auto own_pid = static_cast<std::uint32_t>(own.pid());
  const auto foreign_pid = static_cast<std::uint32_t>(foreign.pid());
  struct Case {
    const char* what;
    TargetRequest target;
    bool allowed;
  };
  const Case table[] = {
      {"all", {true, {}, {}, {}, {}, {}, {}}, false},
      {"own pid", {false, {own_pid}, {}, {}, {}, {}, {}}, true},
      {"own and foreign pid", {false, {own_pid, foreign_pid}, {}, {}, {}, {}, {}}, false},
      {"own uid", {false, {}, {}, {kAliceUid}, {}, {}, {}}, true},
      {"foreign uid", {false, {}, {}, {kBobUid}, {}, {}, {}}, false},
      {"root", {false, {}, {}, {0}, {}, {}, {}}, false},
      {"own and foreign uid", {false, {}, {}, {kAliceUid, kBobUid}, {}, {}, {}}, false},
      {"a name", {false, {}, {"nginx"}, {}, {}, {}, {}}, true},
      {"a cgroup", {false, {}, {}, {}, {"/system.slice"}, {}, {}}, true},
      {"a unit", {false, {}, {}, {}, {}, {"nginx.service"}, {}}, true},
      {"a container", {false, {}, {}, {}, {}, {}, {"4f0c"}}, true},
      {"all behind a name", {true, {}, {"nginx"}, {}, {}, {}, {}}, false},
      {"foreign pid behind a name", {false, {foreign_pid}, {"nginx"}, {}, {}, {}, {}}, false},
  };
  Caller root = caller_of(0, 0);
  root.privileged = true;
  for (const Case& c : table) {
    EXPECT_EQ(authorize_target(alice, c.target).has_value(), c.allowed) << c.what;
    EXPECT_TRUE(authorize_target(root, c.target)) << c.what;
  }
}

}  // namespace
}  // namespace profd
