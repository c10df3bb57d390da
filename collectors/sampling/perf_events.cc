#include "collectors/sampling/perf_events.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include <boost/algorithm/string/split.hpp>

#include "collectors/host/cycle_rate.h"
#include "formats/base/text_fields.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

struct Reading {
  std::uint64_t count = 0;
  std::uint64_t enabled_ns = 0;
};

Reading read_event(int fd) {
  Reading reading;
  if (::read(fd, &reading, sizeof(reading)) != sizeof(reading)) return {};
  return reading;
}

Result<std::vector<unsigned>> online_cpus() {
  const Result<std::string> list = read_whole_file("/sys/devices/system/cpu/online");
  if (!list) return list.error();
  return parse_cpu_list(*list);
}

perf_event_attr attributes_of(const EventSpec& spec, std::uint64_t fixed_period) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = spec.type;
  attr.config = spec.config;
  attr.freq = fixed_period == 0;
  if (fixed_period == 0) {
    attr.sample_freq = spec.frequency_hz;
  } else {
    attr.sample_period = fixed_period;
  }
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
  attr.disabled = 1;
  return attr;
}

Error open_error(const EventSpec& spec, unsigned cpu, int code) {
  const std::string what = "could not open event " + spec.name + " on CPU " + std::to_string(cpu);
  switch (code) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return fail(ErrorCode::kUnsupported,
                  spec.type == PERF_TYPE_HARDWARE
                      ? "this host has no hardware counter (PMU) for " + spec.name
                      : "this host does not have event " + spec.name,
                  "use cpu-clock: it needs no hardware counter");
    case EACCES:
    case EPERM:
      return fail(ErrorCode::kPermissionDenied, what + ": permission denied",
                  "run profd as root or with CAP_PERFMON");
    case EMFILE:
      return fail(ErrorCode::kIo, what + ": too many open files", "raise profd's LimitNOFILE");
    default:
      return fail_errno(what, code);
  }
}

bool is_cycles(const EventSpec& spec) {
  return spec.type == PERF_TYPE_HARDWARE && spec.config == PERF_COUNT_HW_CPU_CYCLES;
}

// A fixed period where the rate of the event is known, else 0: the kernel then adjusts the period
// to the frequency. All samples of a profile have the same weight, so they must stand for equal
// amounts of the event. The kernel begins with one event a sample, which makes thousands of
// interrupts in the first milliseconds, and shortens the period on a CPU that is mostly idle.
Result<std::uint64_t> fixed_period_of(const EventSpec& spec) {
  if (spec.period != 0) return spec.period;
  if (spec.is_time) return kNsPerSecond / spec.frequency_hz;
  if (!is_cycles(spec)) return std::uint64_t{0};
  const auto rate = measure_cycles_per_second();
  if (!rate) return rate.error();
  return *rate / spec.frequency_hz;
}

}  // namespace

Result<PerfEvents> PerfEvents::open(const EventSpec& spec, unsigned index, int program) {
  const auto fixed_period = fixed_period_of(spec);
  if (!fixed_period) return fixed_period.error();
  PerfEvents set(spec, *fixed_period, index, program);
  const auto online = online_cpus();
  if (!online) return online.error();
  for (const unsigned cpu : *online) {
    auto opened = set.open_on(cpu);
    if (opened) {
      set.events_.push_back(std::move(*opened));
      continue;
    }
    const auto still_online = online_cpus();
    if (still_online && std::ranges::binary_search(*still_online, cpu)) return opened.error();
  }
  return set;
}

Result<PerfEvents::CpuEvent> PerfEvents::open_on(unsigned cpu) const {
  perf_event_attr attr = attributes_of(spec_, fixed_period_);
  CpuEvent opened{.cpu = cpu, .event = {}, .link = {}, .counted_at = Clock::now()};
  opened.event.reset(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attr, -1, static_cast<int>(cpu), -1, PERF_FLAG_FD_CLOEXEC)));
  if (!opened.event.valid()) return open_error(spec_, cpu, errno);
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.perf_event.bpf_cookie = index_;
  opened.link.reset(bpf_link_create(program_, opened.event.get(), BPF_PERF_EVENT, &options));
  if (!opened.link.valid()) return fail_errno("could not attach to event " + spec_.name);
  if (::ioctl(opened.event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) {
    return fail_errno("could not enable event " + spec_.name);
  }
  return opened;
}

CpuGaps& CpuGaps::operator+=(const CpuGaps& other) {
  count += other.count;
  time += other.time;
  return *this;
}

void PerfEvents::refresh(Clock::time_point now) {
  const auto online = online_cpus();
  if (!online) return;
  // An event whose enabled time stands still has stopped: its CPU was offline, even if it is online
  // again now.
  std::erase_if(events_, [&](CpuEvent& event) {
    const Reading reading = read_event(event.event.get());
    const bool counts = reading.enabled_ns != event.enabled_ns;
    event.enabled_ns = reading.enabled_ns;
    if (counts) event.counted_at = now;
    if (counts && std::ranges::binary_search(*online, event.cpu)) return false;
    closed_count_ += reading.count;
    offline_.emplace(event.cpu, event.counted_at);
    return true;
  });
  for (const unsigned cpu : *online) {
    if (std::ranges::find(events_, cpu, &CpuEvent::cpu) != events_.end()) continue;
    auto opened = open_on(cpu);
    if (!opened) continue;
    events_.push_back(std::move(*opened));
    if (const auto offline = offline_.find(cpu); offline != offline_.end()) {
      gaps_ += {.count = 1, .time = now - offline->second};
      offline_.erase(offline);
    }
  }
}

std::uint64_t PerfEvents::expected_ticks() const {
  if (fixed_period_ == 0) return 0;
  std::uint64_t count = closed_count_;
  for (const CpuEvent& event : events_) count += read_event(event.event.get()).count;
  return count / fixed_period_;
}

std::vector<unsigned> parse_cpu_list(std::string_view list) {
  constexpr unsigned kMaxCpus = 1U << 16;
  std::vector<unsigned> cpus;
  std::vector<std::string> parts;
  boost::split(parts, list, [](char c) { return c == ','; });
  for (const std::string& part : parts) {
    TextFields fields(part);
    const auto first = fields.decimal<unsigned>();
    const bool is_range = fields.rest().starts_with('-');
    if (is_range) fields.expect('-');
    const auto last = is_range ? fields.decimal<unsigned>() : first;
    if (!fields.ok() || last >= kMaxCpus) continue;
    for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace profd
