// A process that has dropped its privileges: forbidden calls end it, and what it needs still works.

#include "collectors/sandbox/privileges.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectors/sandbox/packets.h"
#include "formats/base/unique_fd.h"
#include "tests/collectors/forked.h"

namespace profd::test {
namespace {

constexpr sandbox::SandboxLimits kLimits{.memory_bytes = std::uint64_t{64} << 20,
                                         .file_bytes = std::uint64_t{1} << 20};
constexpr int kStillThere = 17;
constexpr int kNotDropped = 99;  // the privileges could not be dropped

// The status of a process that drops its privileges and then acts.
int end_in_sandbox(const std::function<int()>& act, const sandbox::LibraryRules& rules = {}) {
  return end_of(
      fork_into([&] { return sandbox::drop_privileges(kLimits, rules) ? act() : kNotDropped; }));
}

struct Attempt {
  const char* name;
  std::function<void()> act;
};

class ForbiddenTest : public testing::TestWithParam<Attempt> {};

TEST_P(ForbiddenTest, EndsTheProcess) {
  const int status = end_in_sandbox([] {
    GetParam().act();
    return kStillThere;
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

INSTANTIATE_TEST_SUITE_P(
    PrivilegesTest, ForbiddenTest,
    testing::Values(
        Attempt{"Open", [] { ::open("/etc/passwd", O_RDONLY); }},
        Attempt{"OpenAt", [] { ::syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY); }},
        Attempt{"OpenAtTwo", [] { ::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0); }},
        Attempt{"Socket", [] { ::socket(AF_INET, SOCK_STREAM, 0); }},
        Attempt{"SocketPair",
                [] {
                  int ends[2];
                  ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
                }},
        Attempt{"Exec", [] { ::execl("/bin/true", "true", nullptr); }},
        Attempt{"Fork", [] { ::fork(); }},
        Attempt{"Trace", [] { ::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr); }},
        Attempt{"TraceMe", [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
        Attempt{"ReadAnothersMemory",
                [] { ::syscall(SYS_process_vm_readv, ::getppid(), nullptr, 0, nullptr, 0, 0); }},
        Attempt{"Kill", [] { ::kill(::getppid(), 0); }},
        Attempt{
            "ExecutableMemory",
            [] { ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANON, -1, 0); }},
        Attempt{"MakeMemoryExecutable",
                [] {
                  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
                }},
        Attempt{"ControlADevice", [] { ::syscall(SYS_ioctl, 0, 0, 0); }},
        Attempt{"RaiseALimit", [] { ::syscall(SYS_prlimit64, 0, 0, nullptr, nullptr); }},
        Attempt{"DuplicateADescriptor", [] { ::fcntl(0, F_DUPFD, 0); }},
        Attempt{"Bpf", [] { ::syscall(SYS_bpf, 0, nullptr, 0); }},
        Attempt{"IoUring", [] { ::syscall(SYS_io_uring_setup, 1, nullptr); }},
        Attempt{"StatByName", [] { ::syscall(SYS_stat, "/etc", nullptr); }}),
    [](const auto& attempt) { return std::string(attempt.param.name); });

TEST(PrivilegesTest, OpenFilesAreReadAndResultsAreSealed) {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const int status = end_in_sandbox([&] {
    char magic[4] = {};
    if (::pread(file.get(), magic, sizeof magic, 0) != sizeof magic) return 1;
    if (!sandbox::make_sealed(std::string(100'000, 'x'))) return 2;
    return kStillThere;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kStillThere);
}

TEST(PrivilegesTest, MemoryAndFilesAreLimited) {
  const int status = end_in_sandbox([] {
    const std::size_t beyond = kLimits.memory_bytes * 2;
    if (::mmap(nullptr, beyond, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
      return 1;
    }
    const auto sealed = sandbox::make_sealed(std::string(kLimits.file_bytes + 1, 'x'));
    return !sealed && sealed.error().code == ErrorCode::kTooLarge ? kStillThere : 2;
  });
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kStillThere);
}

constexpr sandbox::LibraryRules kLibrary{.private_bytes = std::uint64_t{16} << 20,
                                         .finds_no_files = true};

bool finds_none(long result) { return result == -1 && errno == ENOENT; }

TEST(LibraryRulesTest, NoFileIsFound) {
  const int status = end_in_sandbox(
      [] {
        char text[16];
        struct stat file {};
        const bool none = finds_none(::open("/etc/passwd", O_RDONLY)) &&
                          finds_none(::syscall(SYS_open, "/etc/passwd", O_RDONLY)) &&
                          finds_none(::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0)) &&
                          finds_none(::readlink("/proc/self/exe", text, sizeof text)) &&
                          finds_none(::access("/", F_OK)) && finds_none(::stat("/", &file));
        return none && ::fstat(0, &file) == 0 ? kStillThere : 1;
      },
      kLibrary);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kStillThere);
}

TEST(LibraryRulesTest, PrivateMemoryIsLimitedAndFilesAreMapped) {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const int status = end_in_sandbox(
      [&] {
        const auto map = [](std::size_t bytes, int flags, int fd) {
          return ::mmap(nullptr, bytes, PROT_READ | (fd < 0 ? PROT_WRITE : 0), flags, fd, 0);
        };
        constexpr int kMemory = MAP_PRIVATE | MAP_ANONYMOUS;
        if (map(kLibrary.private_bytes * 2, kMemory, -1) != MAP_FAILED) return 1;
        if (map(kLibrary.private_bytes / 2, kMemory, -1) == MAP_FAILED) return 2;
        if (map(kLibrary.private_bytes * 2, MAP_PRIVATE, file.get()) == MAP_FAILED) return 3;
        return kStillThere;
      },
      kLibrary);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kStillThere);
}

struct ForbiddenToLibrary {
  const char* name;
  std::function<void()> act;
};

class ForbiddenToLibraryTest : public testing::TestWithParam<ForbiddenToLibrary> {};

TEST_P(ForbiddenToLibraryTest, EndsTheProcess) {
  const int status = end_in_sandbox(
      [] {
        GetParam().act();
        return kStillThere;
      },
      kLibrary);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

INSTANTIATE_TEST_SUITE_P(
    LibraryRulesTest, ForbiddenToLibraryTest,
    testing::Values(ForbiddenToLibrary{"SharedMemory",
                                       [] {
                                         ::mmap(nullptr, 4096, PROT_READ,
                                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
                                       }},
                    ForbiddenToLibrary{"ExecutableMemory",
                                       [] {
                                         ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                                       }},
                    ForbiddenToLibrary{"Socket", [] { ::socket(AF_INET, SOCK_STREAM, 0); }},
                    ForbiddenToLibrary{"Kill", [] { ::kill(::getppid(), 0); }},
                    ForbiddenToLibrary{"DuplicateADescriptor", [] { ::fcntl(0, F_DUPFD, 0); }}),
    [](const auto& attempt) { return std::string(attempt.param.name); });

// What the kernel says in /proc/PID/`name` of a process that has dropped its privileges, and waits
// on a pipe.
std::string proc_file_in_sandbox(const std::string& name) {
  int ready[2];
  int wait[2];
  if (::pipe(ready) != 0 || ::pipe(wait) != 0) return {};
  const pid_t child = fork_into([&] {
    ::close(wait[1]);
    const rlimit some{.rlim_cur = 4096, .rlim_max = 4096};
    if (::setrlimit(RLIMIT_CORE, &some) != 0) return 1;
    if (!sandbox::drop_privileges(kLimits)) return kNotDropped;
    char byte = 'r';
    if (::write(ready[1], &byte, 1) != 1) return 1;
    return ::read(wait[0], &byte, 1) == 0 ? 0 : 1;
  });
  char byte = 0;
  ::close(ready[1]);
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  std::ifstream file("/proc/" + std::to_string(child) + "/" + name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  ::close(wait[1]);
  end_of(child);
  for (const int fd : {ready[0], wait[0]}) ::close(fd);
  return text;
}

TEST(PrivilegesTest, TheProcessLeavesNoCore) {
  EXPECT_THAT(proc_file_in_sandbox("limits"),
              testing::ContainsRegex("Max core file size +0 +0 +bytes"));
}

TEST(PrivilegesTest, TheProcessHasAUserOfItsOwnAndNoPrivileges) {
  const std::string text = proc_file_in_sandbox("status");
  for (const char* line :
       {"Uid:\t2147483000\t2147483000\t2147483000\t2147483000\n",
        "Gid:\t2147483000\t2147483000\t2147483000\t2147483000\n", "CapPrm:\t0000000000000000\n",
        "CapEff:\t0000000000000000\n", "CapInh:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
        "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Groups:\t \n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace profd::test
