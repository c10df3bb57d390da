#include "collectors/sampling/process_list.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace profd {

ProcessList::ProcessList(const std::vector<profd_task>& tasks)
    : by_tgid_(tasks), by_parent_(tasks) {
  std::ranges::sort(by_tgid_, {}, &profd_task::global_tgid);
  std::ranges::sort(by_parent_, {}, &profd_task::parent_global_tgid);
}

bool ProcessList::contains(const profd_task& process) const {
  const auto of_tgid =
      std::ranges::equal_range(by_tgid_, process.global_tgid, {}, &profd_task::global_tgid);
  return std::ranges::find(of_tgid, process.start_ns, &profd_task::start_ns) != of_tgid.end();
}

std::vector<profd_task> ProcessList::children_of(const profd_task& parent) const {
  std::vector<profd_task> children;
  std::ranges::copy_if(
      std::ranges::equal_range(by_parent_, parent.global_tgid, {}, &profd_task::parent_global_tgid),
      std::back_inserter(children),
      [&parent](const profd_task& child) { return child.start_ns > parent.start_ns; });
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
