#include "daemon/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace profd {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

ProcessUsage own_usage() {
  ProcessUsage usage;
  rusage resources{};
  if (::getrusage(RUSAGE_SELF, &resources) == 0) {
    usage.cpu_seconds = seconds(resources.ru_utime) + seconds(resources.ru_stime);
  }
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  usage.rss_bytes = resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return usage;
}

}  // namespace profd
