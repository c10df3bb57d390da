#include "tests/collectors/jit/runtime.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "collectors/host/clock.h"
#include "formats/proc/stat.h"

namespace profd::test {
namespace {

constexpr unsigned kLifeSeconds = 60;

}  // namespace

PrivateDirectory::PrivateDirectory() {
  std::string name = "/tmp/profd_jit_XXXXXX";
  path_ = ::mkdtemp(name.data());
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

UidOwners owners_with_subordinates(const PrivateDirectory& directory) {
  const std::string uid = std::to_string(kOther);
  write_file(directory / "subuid", uid + ":" + std::to_string(kSubordinate) + ":1000\n");
  write_file(directory / "passwd", "");
  return UidOwners(directory / "subuid", directory / "passwd");
}

Runtime::Runtime(const std::function<bool()>& prepare) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::alarm(kLifeSeconds);
    const char done = prepare() ? '+' : '-';
    [[maybe_unused]] const ssize_t wrote = ::write(ends[1], &done, 1);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char done = '-';
  ready_ = ::read(ends[0], &done, 1) == 1 && done == '+';
  ::close(ends[0]);
  key_ = key_of(pid_);
}

Runtime::~Runtime() { end(); }

void Runtime::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

ForkedRuntime::ForkedRuntime(const std::function<bool()>& prepare)
    : child_(static_cast<pid_t*>(::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
      parent_([&] {
        if (!prepare()) return false;
        const pid_t forked = ::fork();
        if (forked == 0) {
          ::alarm(kLifeSeconds);
          for (;;) ::pause();
        }
        *child_ = forked;
        return forked > 0;
      }) {}

ForkedRuntime::~ForkedRuntime() {
  if (*child_ > 0) ::kill(*child_, SIGKILL);
  ::munmap(child_, sizeof(pid_t));
}

ProcessKey key_of(pid_t pid) {
  const auto stat = read_process_stat("/proc/" + std::to_string(pid) + "/stat");
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return {.tgid = static_cast<std::uint32_t>(pid),
          .exec_id = 1,
          .start_ns = stat ? stat->start_ticks * (1'000'000'000 / ticks) : 0};
}

MappingView jit_code_of(const ProcessKey& process) {
  MappingView view{};
  view.process = process;
  view.kind = PROFD_MAPPING_ANONYMOUS;
  view.start = 0x10000;
  view.end = 0x20000;
  return view;
}

bool map_marker(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  return fd >= 0 && ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED;
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void append_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

std::string dump_header(pid_t pid) {
  JitDumpWriter writer;
  writer.header({.pid = static_cast<std::uint32_t>(pid)});
  return writer.take();
}

std::string load_of(pid_t pid, const Function& function) {
  JitDumpWriter writer;
  const std::string code(function.bytes, '\x90');
  writer.load({.timestamp = function.time_ns,
               .pid = static_cast<std::uint32_t>(pid),
               .tid = static_cast<std::uint32_t>(pid),
               .address = function.address,
               .code_bytes = 0,
               .name = function.name,
               .code = code});
  return writer.take();
}

std::uint64_t monotonic_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

bool wait_for(JitProcesses& processes, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    processes.poll();
    if (condition()) return true;
    pollfd events{.fd = processes.wake_fd(), .events = POLLIN, .revents = 0};
    ::poll(&events, 1, 20);
  }
  return false;
}

std::string name_at(JitProcesses& processes, const ProcessKey& process, std::uint64_t address,
                    std::uint64_t time_ns) {
  const auto function = processes.at(process, address, time_ns);
  return function ? std::string(function->code.name) : std::string();
}

std::uint64_t refused(const JitProcesses& processes, JitRefusal reason) {
  return processes.stats().refused[static_cast<std::size_t>(reason)];
}

}  // namespace profd::test
