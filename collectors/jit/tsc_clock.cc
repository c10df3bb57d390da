#include "collectors/jit/tsc_clock.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include <x86intrin.h>

#include "collectors/host/clock.h"

namespace profd {
namespace {

std::uint64_t monotonic_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

}  // namespace

TscClock::TscClock() {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.exclude_kernel = 1;
  event_.reset(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!event_.valid()) return;
  void* const page = ::mmap(nullptr, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), PROT_READ,
                            MAP_SHARED, event_.get(), 0);
  if (page != MAP_FAILED) page_ = page;
}

TscClock::~TscClock() {
  if (page_ != nullptr) ::munmap(page_, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

std::optional<TscConversion> TscClock::conversion() const {
  if (page_ == nullptr) return std::nullopt;
  const auto& page = *static_cast<const volatile perf_event_mmap_page*>(page_);
  if (page.cap_user_time_zero == 0) return std::nullopt;
  TscConversion conversion{
      .time_zero = page.time_zero, .time_mult = page.time_mult, .time_shift = page.time_shift};
  // The page tells the time of the scheduler's clock, which starts elsewhere.
  conversion.time_zero += monotonic_ns() - tsc_to_ns(__rdtsc(), conversion);
  return conversion;
}

}  // namespace profd
