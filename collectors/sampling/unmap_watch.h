// The processes whose unmaps the kernel side reports, and the address ranges that count.
//
// The programs are attached only while a process is watched, so that they cost nothing else. Owned
// by the io thread.

#pragma once

#include <set>
#include <span>
#include <vector>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/sample.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class UnmapWatch {
 public:
  static constexpr std::size_t kMaxRanges = PROFD_WATCHED_SPANS;

  // `programs` must outlive the watch.
  static Result<UnmapWatch> open(const Programs& programs);

  // Watches the process in these ranges, kMaxRanges at most, instead of those before; none end the
  // watch. Errors: the kernel cannot report unmaps, or PROFD_MAX_WATCHED processes are watched
  // already.
  Result<void> set(const ProcessKey& process, std::span<const AddressRange> ranges);

 private:
  UnmapWatch(const Programs& programs, int watched) : programs_(&programs), watched_(watched) {}
  Result<void> attach();
  void remove(const ProcessKey& process);

  const Programs* programs_;
  int watched_;  // the map's descriptor, which programs_ owns
  std::set<ProcessKey> processes_;
  std::vector<UniqueFd> hooks_;
};

}  // namespace profd
