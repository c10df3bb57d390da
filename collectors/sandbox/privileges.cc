#include "collectors/sandbox/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include <seccomp.h>

namespace profd::sandbox {
namespace {

// `nobody` is the second choice, for a user namespace that does not have the first.
constexpr std::array<uid_t, 2> kUsers = {kSandboxUser, 65'534};

Result<void> check(bool done, const char* what) {
  if (!done) return fail_errno(std::string("could not ") + what);
  return {};
}

// The new root directory holds nothing but the state of the process's own descriptors. Where it
// can't be set (no /proc, no privilege), paths still can't be opened, but newfstatat, which glibc
// uses for fstat, can ask whether they exist.
void leave_root_directory() {
  if (::chroot("/proc/self/fdinfo") == 0 && ::chdir("/") != 0) ::_exit(1);
}

Result<void> become_nobody() {
  // A daemon of an ordinary user may not change groups; the other steps hold without this one.
  if (::setgroups(0, nullptr) != 0 && errno != EPERM) return fail_errno("could not leave groups");
  if (::geteuid() != 0) return {};
  for (const uid_t user : kUsers) {
    const bool group_gone = ::setresgid(user, user, user) == 0;
    if (group_gone && ::setresuid(user, user, user) == 0) return {};
  }
  return check(errno == EPERM, "change the user");
}

Result<void> drop_capabilities() {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return check(::syscall(SYS_capset, &header, none.data()) == 0, "drop capabilities");
}

struct UsedMemory {
  std::uint64_t address_space_bytes = 0;
  std::uint64_t private_bytes = 0;
};

UsedMemory used_memory() {
  unsigned long pages = 0;
  unsigned long private_pages = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> statm(std::fopen("/proc/self/statm", "re"),
                                                              &std::fclose);
  if (!statm || std::fscanf(statm.get(), "%lu %*u %*u %*u %*u %lu", &pages, &private_pages) != 2) {
    return {};
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {.address_space_bytes = pages * page, .private_bytes = private_pages * page};
}

bool limit(__rlimit_resource resource, std::uint64_t value) {
  const rlimit both{.rlim_cur = value, .rlim_max = value};
  return ::setrlimit(resource, &both) == 0;
}

// The daemon's own limit may be lower.
bool limit_open_files(std::uint64_t count) {
  rlimit old{};
  return ::getrlimit(RLIMIT_NOFILE, &old) == 0 &&
         limit(RLIMIT_NOFILE, std::min<std::uint64_t>(count, old.rlim_max));
}

Result<void> set_limits(const SandboxLimits& limits, const LibraryRules& rules,
                        const UsedMemory& used) {
  // With the signal ignored, write() of a file that grows too large is an error.
  ::signal(SIGXFSZ, SIG_IGN);
  bool set = limit(RLIMIT_AS, used.address_space_bytes + limits.memory_bytes) &&
             limit(RLIMIT_FSIZE, limits.file_bytes) && limit_open_files(rules.open_files) &&
             limit(RLIMIT_CORE, 0);
  if (rules.private_bytes != 0) {
    set = set && limit(RLIMIT_DATA, used.private_bytes + rules.private_bytes);
  }
  return check(set, "set resource limits");
}

// As the kernel's struct landlock_ruleset_attr, whose header may be older than the kernel.
struct LandlockRules {
  std::uint64_t files;
  std::uint64_t network;  // since version 4
  std::uint64_t scopes;   // since version 6
};

LandlockRules rules_of(long version) {
  constexpr std::array<std::uint64_t, 5> kFileRights = {13, 14, 15, 15, 16};  // by version
  const auto index = std::min<std::size_t>(static_cast<std::size_t>(version), kFileRights.size());
  return {.files = (std::uint64_t{1} << kFileRights[index - 1]) - 1,
          .network = version >= 4 ? 3U : 0U,
          .scopes = version >= 6 ? 3U : 0U};
}

// Landlock, where the kernel has it, is a second barrier: seccomp alone already forbids to open.
Result<void> forbid_files() {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return {};
  const LandlockRules rules = rules_of(version);
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const long rule_set = ::syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (rule_set < 0) return fail_errno("could not make a Landlock ruleset");
  const bool restricted = ::syscall(SYS_landlock_restrict_self, rule_set, 0) == 0;
  ::close(static_cast<int>(rule_set));
  return check(restricted, "apply the Landlock ruleset");
}

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

bool allow(const Filter& filter, int call) {
  return ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0) == 0;
}

// The condition that the argument has this value in these bits.
scmp_arg_cmp masked(unsigned argument, std::uint64_t bits, std::uint64_t value) {
  return {.arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = bits, .datum_b = value};
}

bool allow_if(const Filter& filter, int call, scmp_arg_cmp condition) {
  return ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, call, 1, &condition) == 0;
}

bool allow_mmap(const Filter& filter, bool shared) {
  const std::array conditions = {masked(2, PROT_EXEC, 0), masked(3, MAP_SHARED, 0)};
  return ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(mmap), shared ? 1 : 2,
                                  conditions.data()) == 0;
}

// Of the calls here, libelf asks by fcntl() whether a descriptor is open, and glibc's qsort() for
// sysinfo, which it does without.
bool add_library_rules(const Filter& filter) {
  constexpr std::array kCalls = {SCMP_SYS(open),     SCMP_SYS(openat),    SCMP_SYS(openat2),
                                 SCMP_SYS(stat),     SCMP_SYS(lstat),     SCMP_SYS(access),
                                 SCMP_SYS(readlink), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
                                 SCMP_SYS(getcwd),   SCMP_SYS(sysinfo),   SCMP_SYS(readlinkat)};
  bool made = true;
  for (const int call : kCalls) {
    made = made && ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOENT), call, 0) == 0;
  }
  const scmp_arg_cmp by_name = masked(3, AT_EMPTY_PATH, 0);
  return made && allow_if(filter, SCMP_SYS(fcntl), masked(1, UINT32_MAX, F_GETFD)) &&
         ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(newfstatat), 1,
                                  &by_name) == 0;
}

// recvfrom and sendto are recv() and send(); there is no connect(), bind() or socket().
bool add_connection_rules(const Filter& filter) {
  constexpr std::array kCalls = {SCMP_SYS(accept4),   SCMP_SYS(getsockopt), SCMP_SYS(shutdown),
                                 SCMP_SYS(recvfrom),  SCMP_SYS(sendto),     SCMP_SYS(epoll_create1),
                                 SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait)};
  bool made = allow_if(filter, SCMP_SYS(socketpair), masked(0, UINT32_MAX, AF_UNIX));
  for (const int call : kCalls) made = made && allow(filter, call);
  return made;
}

Result<void> forbid_system_calls(const LibraryRules& rules) {
  const Filter filter(::seccomp_init(SCMP_ACT_KILL_PROCESS), &::seccomp_release);
  if (!filter) return fail(ErrorCode::kIo, "could not make a seccomp filter");
  // Calls on open descriptors, for memory, and to exit; and what the allocator and the sanitizers
  // need (futex, madvise, signal masks, the own ids).
  constexpr std::array kCalls = {
      SCMP_SYS(recvmsg),      SCMP_SYS(sendmsg),     SCMP_SYS(read),
      SCMP_SYS(pread64),      SCMP_SYS(write),       SCMP_SYS(pwrite64),
      SCMP_SYS(fstat),        SCMP_SYS(lseek),       SCMP_SYS(ftruncate),
      SCMP_SYS(memfd_create), SCMP_SYS(close),       SCMP_SYS(munmap),
      SCMP_SYS(mremap),       SCMP_SYS(brk),         SCMP_SYS(madvise),
      SCMP_SYS(futex),        SCMP_SYS(getrandom),   SCMP_SYS(clock_gettime),
      SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(rt_sigprocmask),
      SCMP_SYS(sched_yield),  SCMP_SYS(gettid),      SCMP_SYS(getpid),
      SCMP_SYS(exit),         SCMP_SYS(exit_group),  SCMP_SYS(restart_syscall),
      SCMP_SYS(poll)};
  bool made = true;
  for (const int call : kCalls) made = made && allow(filter, call);
  made = made && allow_mmap(filter, rules.private_bytes == 0) &&
         allow_if(filter, SCMP_SYS(mprotect), masked(2, PROT_EXEC, 0)) &&
         allow_if(filter, SCMP_SYS(fcntl), masked(1, UINT32_MAX, F_ADD_SEALS)) &&
         allow_if(filter, SCMP_SYS(fcntl), masked(1, UINT32_MAX, F_GET_SEALS)) &&
         allow_if(filter, SCMP_SYS(newfstatat), masked(3, AT_EMPTY_PATH, AT_EMPTY_PATH)) &&
         (!rules.finds_no_files || add_library_rules(filter)) &&
         (!rules.serves_connections || add_connection_rules(filter));
  if (!made) return fail(ErrorCode::kIo, "could not make a seccomp filter");
  if (const int status = ::seccomp_load(filter.get()); status != 0) {
    return fail_errno("could not load the seccomp filter", -status);
  }
  return {};
}

}  // namespace

Result<void> drop_privileges(const SandboxLimits& limits, const LibraryRules& rules) {
  const UsedMemory used = used_memory();
  // That of the daemon may be higher; a lower one, of the thread that started the child, stays.
  if (::getpriority(PRIO_PROCESS, 0) < 0) (void)::setpriority(PRIO_PROCESS, 0, 0);
  leave_root_directory();
  if (auto done = become_nobody(); !done) return done;
  if (auto done = drop_capabilities(); !done) return done;
  // After the change of user, which resets the last two.
  if (auto done = check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                            ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
                            ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0,
                        "set the process's flags");
      !done) {
    return done;
  }
  if (auto done = set_limits(limits, rules, used); !done) return done;
  if (auto done = forbid_files(); !done) return done;
  return forbid_system_calls(rules);
}

}  // namespace profd::sandbox
