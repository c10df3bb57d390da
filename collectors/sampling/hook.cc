#include "collectors/sampling/hook.h"

#include <utility>

namespace profd {
namespace {

Result<Hook::Links> attach_all(const Programs& programs, const std::vector<const char*>& names) {
  Hook::Links links;
  for (const char* const name : names) {
    auto link = programs.attach_tracepoint(name);
    if (!link) return link.error();
    links.push_back(std::move(*link));
  }
  return links;
}

}  // namespace

Hook::Hook(const Programs& programs, std::vector<const char*> names)
    : Hook(programs.kernel_calls(),
           [&programs, names = std::move(names)] { return attach_all(programs, names); }) {}

Result<bool> Hook::need() {
  is_needed_ = true;
  if (!links_.empty()) return true;
  if (attaching_.valid()) return take_attached();
  attaching_ = calls_->run(attach_);
  return false;
}

Result<bool> Hook::take_attached() {
  if (!KernelCalls::has_returned(attaching_)) return false;
  auto links = attaching_.get();
  if (!links) return links.error();
  links_ = std::move(*links);
  return true;
}

void Hook::release(Clock::time_point now) {
  if (std::exchange(is_needed_, false)) released_ = now;
}

void Hook::detach_if_unneeded(Clock::time_point now) {
  if (is_needed_ || now < released_ + kKept) return;
  if (attaching_.valid()) (void)take_attached();
  if (links_.empty()) return;
  (void)calls_->run([links = std::exchange(links_, {})]() mutable { links.clear(); });
}

}  // namespace profd
