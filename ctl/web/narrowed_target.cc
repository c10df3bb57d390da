#include "ctl/web/narrowed_target.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace profd {
namespace {

template <class T>
bool has_each(const std::vector<T>& terms, const std::vector<T>& of) {
  return std::ranges::all_of(
      of, [&terms](const T& term) { return std::ranges::find(terms, term) != terms.end(); });
}

// As far as the terms say it.
bool is_within(const TargetRequest& part, const TargetRequest& whole) {
  if (whole.all) return true;
  return !part.all && has_each(whole.pids, part.pids) && has_each(whole.comms, part.comms) &&
         has_each(whole.uids, part.uids) && has_each(whole.cgroups, part.cgroups) &&
         has_each(whole.units, part.units) && has_each(whole.containers, part.containers);
}

}  // namespace

NarrowedTarget narrowed_target(const TargetRequest& source, TargetRequest request) {
  if (request.empty()) return {.of_daemon = source};
  if (source.empty() || is_within(request, source)) return {.of_daemon = std::move(request)};
  return {.of_daemon = source, .of_labels = std::move(request)};
}

}  // namespace profd
