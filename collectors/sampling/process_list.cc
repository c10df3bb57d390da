#include "collectors/sampling/process_list.h"

#include <algorithm>
#include <new>
#include <utility>

namespace profd {

ProcessList::ProcessList(const std::vector<profd_task>& tasks)
    : by_tgid_(tasks), by_parent_(tasks) {
  std::ranges::sort(by_tgid_, {}, &profd_task::global_tgid);
  std::ranges::sort(by_parent_, {}, &profd_task::parent_global_tgid);
}

bool ProcessList::contains(const profd_task& process) const {
  const std::uint32_t tgid = process.global_tgid;
  auto at = std::ranges::lower_bound(by_tgid_, tgid, {}, &profd_task::global_tgid);
  for (; at != by_tgid_.end() && at->global_tgid == tgid; ++at) {
    if (at->start_ns == process.start_ns) return true;
  }
  return false;
}

std::vector<profd_task> ProcessList::children_of(const profd_task& parent) const {
  std::vector<profd_task> children;
  const std::uint32_t tgid = parent.global_tgid;
  auto at = std::ranges::lower_bound(by_parent_, tgid, {}, &profd_task::parent_global_tgid);
  for (; at != by_parent_.end() && at->parent_global_tgid == tgid; ++at) {
    if (at->start_ns > parent.start_ns) children.push_back(*at);
  }
  return children;
}

std::uint64_t ProcessLister::request() {
  wanted_ = begun_ + 1;
  if (!listing_.valid()) begin();
  return wanted_;
}

void ProcessLister::begin() {
  begun_ = wanted_;
  listing_ = programs_->kernel_calls().run([programs = programs_] { return list(*programs); });
}

Result<std::shared_ptr<const ProcessList>> ProcessLister::find(std::uint64_t number) {
  if (KernelCalls::has_returned(listing_)) {
    last_ = listing_.get();
    ended_ = begun_;
    if (wanted_ > begun_) begin();
  }
  if (ended_ < number) return std::shared_ptr<const ProcessList>();
  return last_;
}

ProcessLister::Listed ProcessLister::list(const Programs& programs) {
  try {
    const auto tasks = programs.list_tasks(0);
    if (!tasks) return tasks.error();
    return std::make_shared<const ProcessList>(*tasks);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "no memory for a list of all processes");
  }
}

}  // namespace profd
