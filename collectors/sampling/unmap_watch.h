// Which processes tell when they give up memory, and where.
//
// The programs are attached only while a process is watched; else they cost nothing. Owned by the
// io thread.

#pragma once

#include <cstdint>
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
  static constexpr std::size_t kMaxSpans = PROFD_WATCHED_SPANS;

  // `programs` must outlive it.
  static Result<UnmapWatch> open(const Programs& programs);

  // In these spans, kMaxSpans at most; none: no longer. Errors: the kernel can't tell, or there are
  // PROFD_MAX_WATCHED processes already.
  Result<void> set(const ProcessKey& process, std::span<const AddressRange> spans);

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
