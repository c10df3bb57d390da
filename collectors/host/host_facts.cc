// Tries each system call that sampling needs once, so that a sandbox's filters are found as well.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>

#include "collectors/host/host_checks.h"
#include "formats/base/whole_file.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

// The first symbols are per-CPU offsets, which begin at 0; those of the text follow soon.
constexpr int kSymbolsToTry = 20'000;

std::uint64_t effective_capabilities() {
  const auto status = read_process_status("/proc/self/status");
  return status ? status->effective_capabilities : 0;
}

std::string first_line_of(const char* path) {
  const auto text = read_whole_file(path);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

// "none [integrity] confidentiality": the mode in brackets is active.
std::string lockdown_in_force() {
  const std::string line = first_line_of("/sys/kernel/security/lockdown");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return line.substr(open + 1, close - open - 1);
}

// The errno of a call that returns a descriptor, which is closed here; 0 for success.
int error_of(long fd) {
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

int try_bpf() {
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_ARRAY;
  map.key_size = sizeof(std::uint32_t);
  map.value_size = sizeof(std::uint64_t);
  map.max_entries = 1;
  return error_of(::syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)));
}

int try_event(std::uint32_t type, std::uint64_t config) {
  perf_event_attr event{};
  event.type = type;
  event.size = sizeof(event);
  event.config = config;
  event.disabled = 1;
  constexpr pid_t kEveryProcess = -1;
  constexpr int kFirstCpu = 0;
  return error_of(
      ::syscall(SYS_perf_event_open, &event, kEveryProcess, kFirstCpu, -1, PERF_FLAG_FD_CLOEXEC));
}

int try_openat2() {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  return error_of(::syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)));
}

// The first entry is the program's own file.
int try_map_files() {
  constexpr const char* kDirectory = "/proc/self/map_files";
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(kDirectory), &::closedir);
  if (!directory) return errno;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    const std::string path = std::string(kDirectory) + "/" + std::string(name);
    return error_of(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  return ENOENT;
}

bool is_another_users(const std::string& process) {
  struct stat status {};
  return ::stat(process.c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

// One process that can be read is enough: a container may hide some from everyone. 0 as well where
// all processes are of this user.
int try_other_maps() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), &::closedir);
  if (!directory) return errno;
  int error = 0;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string process = std::string("/proc/") + entry->d_name;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_another_users(process)) continue;
    error = error_of(::open((process + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
    if (error == 0) return 0;
  }
  return error;
}

// The first PID namespace, which the kernel makes at boot, has this inode (PROC_PID_INIT_INO of
// its linux/proc_ns.h), whichever /proc is mounted. True where it can't be read.
bool is_in_host_pid_namespace() {
  constexpr ino_t kHostPidNamespace = 0xEFFFFFFC;
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) != 0 || status.st_ino == kHostPidNamespace;
}

int try_kallsyms() {
  errno = 0;
  std::ifstream file("/proc/kallsyms");
  if (!file) return errno != 0 ? errno : ENOENT;
  std::string line;
  for (int symbol = 0; symbol < kSymbolsToTry && std::getline(file, line); ++symbol) {
    if (line.find_first_not_of('0') < line.find(' ')) return 0;
  }
  return ENODATA;
}

int read_kptr_restrict() {
  return std::atoi(first_line_of("/proc/sys/kernel/kptr_restrict").c_str());
}

}  // namespace

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

std::string host_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "unknown";
}

HostFacts read_host_facts() {
  HostFacts facts;
  facts.kernel_release = kernel_release();
  facts.has_btf = ::access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  facts.is_root = ::geteuid() == 0;
  facts.capabilities = effective_capabilities();
  facts.lockdown = lockdown_in_force();
  facts.bpf_error = try_bpf();
  facts.perf_event_error = try_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
  facts.cycles_error = try_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
  facts.openat2_error = try_openat2();
  facts.map_files_error = try_map_files();
  facts.other_maps_error = try_other_maps();
  facts.kallsyms_error = try_kallsyms();
  facts.kptr_restrict = read_kptr_restrict();
  facts.has_host_pids = is_in_host_pid_namespace();
  return facts;
}

}  // namespace profd
