#include "daemon/service/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "formats/proc/stat.h"

namespace profd {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double cpu_seconds_of(const rusage& resources) {
  return seconds_of(resources.ru_utime) + seconds_of(resources.ru_stime);
}

std::uint64_t resident_bytes_of(const std::string& process) {
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/" + process + "/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds_of_process(const std::string& process) {
  const auto stat = read_process_stat("/proc/" + process + "/stat");
  if (!stat) return 0;
  return static_cast<double>(stat->user_ticks + stat->system_ticks) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

// Each thread lists the children that it forked.
StatusInfo::Parsers children_usage() {
  StatusInfo::Parsers usage;
  rusage gone{};
  if (::getrusage(RUSAGE_CHILDREN, &gone) == 0) usage.cpu_seconds = cpu_seconds_of(gone);
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream children(thread.path() / "children");
    for (std::string process; children >> process;) {
      ++usage.processes;
      usage.cpu_seconds += cpu_seconds_of_process(process);
      usage.rss_bytes += resident_bytes_of(process);
    }
  }
  return usage;
}

ProcessUsage own_usage() {
  ProcessUsage usage;
  rusage resources{};
  if (::getrusage(RUSAGE_SELF, &resources) == 0) usage.cpu_seconds = cpu_seconds_of(resources);
  usage.rss_bytes = resident_bytes_of("self");
  return usage;
}

}  // namespace profd
