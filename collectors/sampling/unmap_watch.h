// The processes whose unmaps the kernel side reports, and the address ranges that count.
//
// The programs are attached only while a process is watched, and a minute longer, so that they cost
// nothing else. No call waits: another thread attaches and detaches them (hook.h). Owned by the io
// thread.

#pragma once

#include <chrono>
#include <set>
#include <span>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/sample.h"
#include "collectors/sampling/hook.h"
#include "formats/base/result.h"

namespace profd {

class UnmapWatch {
 public:
  static constexpr std::size_t kMaxRanges = PROFD_WATCHED_SPANS;

  // `programs` must outlive the watch.
  static Result<UnmapWatch> open(const Programs& programs);

  // Watches the process in these ranges, kMaxRanges at most, instead of those before; none end the
  // watch. The first watch begins some ms later. Errors: the kernel cannot report unmaps, which may
  // show only in a later call, or PROFD_MAX_WATCHED processes are watched already.
  Result<void> set(const ProcessKey& process, std::span<const AddressRange> ranges);

  // To be called every second or so.
  void detach_unneeded_hooks(std::chrono::steady_clock::time_point now) {
    hook_.detach_if_unneeded(now);
  }

 private:
  UnmapWatch(Hook hook, int watched) : hook_(std::move(hook)), watched_(watched) {}
  void remove(const ProcessKey& process);

  Hook hook_;
  int watched_;  // the map's descriptor, which the programs own
  std::set<ProcessKey> processes_;
};

}  // namespace profd
