#include "tests/bpf/workload.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/reachable_program.h"
#include "tests/user_namespace.h"

namespace profd::test {
namespace {

std::map<std::uint64_t, std::string> functions_by_nm(const std::string& program) {
  const std::unique_ptr<FILE, int (*)(FILE*)> nm(
      ::popen(("nm --defined-only " + program).c_str(), "r"), ::pclose);
  std::map<std::uint64_t, std::string> functions;
  std::array<char, 4096> line;
  while (nm && std::fgets(line.data(), line.size(), nm.get()) != nullptr) {
    unsigned long address = 0;
    char type = 0;
    std::array<char, 256> name{};
    if (std::sscanf(line.data(), "%lx %c %255s", &address, &type, name.data()) == 3 &&
        (type == 't' || type == 'T')) {
      functions[address] = name.data();
    }
  }
  if (functions.empty()) throw std::runtime_error("nm found no functions in " + program);
  return functions;
}

// To be called after the change of ids, with PR_SET_KEEPCAPS set.
bool keep_net_admin() {
  constexpr std::uint32_t kMask = 1U << CAP_NET_ADMIN;
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  sets[0] = {.effective = kMask, .permitted = kMask, .inheritable = kMask};
  return ::syscall(SYS_capset, &header, sets.data()) == 0 &&
         ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) == 0;
}

// Runs in the child: only system calls up to exec.
[[noreturn]] void become(const char* program, char* const* arguments,
                         const WorkloadOptions& options, int output) {
  if (!options.cgroup.empty()) {
    const int procs = ::open((options.cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (procs < 0 || ::write(procs, "0", 1) != 1) ::_exit(120);
  }
  if (::dup2(output, STDOUT_FILENO) < 0) ::_exit(121);
  const int root = options.own_user_namespace ? leave_chroot() : -1;
  if (options.capable && ::prctl(PR_SET_KEEPCAPS, 1) != 0) ::_exit(124);
  if (options.uid != 0 &&
      (::setgroups(0, nullptr) != 0 || ::setresgid(options.gid, options.gid, options.gid) != 0 ||
       ::setresuid(options.uid, options.uid, options.uid) != 0)) {
    ::_exit(122);
  }
  if (options.capable && !keep_net_admin()) ::_exit(125);
  if (options.own_user_namespace && !enter_user_namespace(root)) ::_exit(126);
  ::execv(program, arguments);
  ::_exit(123);
}

}  // namespace

Workload::Workload(std::vector<std::string> arguments, const WorkloadOptions& options) {
  std::string program = options.program.empty() ? workload_path() : options.program;
  if (options.uid != 0) program = reachable_program(program);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  output_.reset(pipe[0]);
  UniqueFd write_end(pipe[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) become(program.c_str(), pointers.data(), options, write_end.get());
  write_end.reset();  // else the end of a child that failed would not show
  said_ = read_output();
}

Workload::~Workload() { end(); }

std::string Workload::read_output() {
  std::array<char, 256> buffer{};
  const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
  if (got <= 0) throw std::runtime_error("the workload ended early: " + describe_end());
  return {buffer.data(), static_cast<std::size_t>(got)};
}

// The exit codes are those of become().
std::string Workload::describe_end() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return code == 126 ? "no user namespace can be made here" : "exit code " + std::to_string(code);
}

void Workload::signal(int number) const { ::kill(pid_, number); }

void Workload::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::vector<std::size_t> allowed_cpus() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) throw std::runtime_error("affinity");
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

void run_on(std::uint32_t pid, std::size_t cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(static_cast<pid_t>(pid), sizeof one, &one) != 0) {
    throw std::runtime_error("affinity");
  }
}

std::string workload_path() { return PROFD_TEST_WORKLOAD; }

std::string workload_function(std::uint64_t address) {
  static const std::map<std::uint64_t, std::string> functions = functions_by_nm(workload_path());
  const auto next = functions.upper_bound(address);
  return next == functions.begin() ? "?" : std::prev(next)->second;
}

}  // namespace profd::test
