#include "ctl/commands/sampling_cost.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <ostream>
#include <string>

#include "ctl/output/text.h"
#include "ctl/views/time_kind.h"
#include "formats/base/whole_file.h"

namespace profd {

namespace {

// Of "0.20 0.18 0.12 1/80 11206". 0: unknown.
std::uint64_t threads_of_host() {
  const auto text = read_whole_file("/proc/loadavg");
  if (!text) return 0;
  const std::size_t slash = text->find('/');
  if (slash == std::string::npos) return 0;
  std::uint64_t threads = 0;
  (void)std::from_chars(text->data() + slash + 1, text->data() + text->size(), threads);
  return threads;
}

void warn_of_idle_host(const StartRequest& request, const Console& console) {
  const TimeKind kind = time_kind_of_event(request.event);
  if (!request.target.all || kind == TimeKind::kCpu || kind == TimeKind::kRunnable) return;
  const std::uint64_t threads = threads_of_host();
  console.err << "profctl: most threads of a host wait all the time, and each adds a second to "
                 "each second";
  if (threads != 0) console.err << ": this host has " << counted(threads, "thread");
  console.err << "\nhint: name what was slow: --pid, --comm, --unit or --container\n";
}

}  // namespace

void warn_of_cost(const StartRequest& request, const Console& console) {
  warn_of_idle_host(request, console);
  if (request.frequency_hz <= kCostlyFrequency) return;
  constexpr double kSecondsOfTick = 10e-6;  // of a stack of usual depth
  const double percent = 100 * kSecondsOfTick * static_cast<double>(request.frequency_hz);
  console.err
      << "profctl: " << request.frequency_hz << " samples a second take about "
      << cpu_text(std::min(percent, 100.0))
      << " of each busy CPU, and some may be lost\nhint: --freq 999 shows the same functions\n";
}

void say_that_stacks_are_always_on(const Console& console) {
  console.err << "profctl: stacks are always recorded, with and without -g\n";
}

}  // namespace profd
