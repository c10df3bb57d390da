#include "ctl/web/shown_samples.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "ctl/sources/target_labels.h"
#include "ctl/views/idle.h"
#include "ctl/views/time_kind.h"
#include "ctl/web/session_timeline.h"

namespace profd {
namespace {

// Two ranges that are compared, and what was shown before. A day of a busy host takes 200 MB.
constexpr std::size_t kMostKept = 3;
// A session, and a range of the history that has not ended, get more samples.
constexpr std::chrono::seconds kLiveAge{5};

bool is_over(const TimeRange& range) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  // The window that is written when it ends.
  constexpr std::chrono::minutes kWritten{2};
  return std::chrono::milliseconds(range.until_ms) + kWritten < now;
}

}  // namespace

ShownSamples::ShownSamples(Client& client, SourceRequest source)
    : client_(client), source_(std::move(source)) {}

bool ShownSamples::is_current(const Kept& kept) const {
  struct stat info {};
  const bool is_file = !is_history() && ::stat(source_.name.c_str(), &info) == 0;
  if (is_file || (is_history() && is_over(kept.range))) return true;
  return std::chrono::steady_clock::now() - kept.read < kLiveAge;
}

Result<Source> ShownSamples::open(const TimeRange& range, const TargetRequest& target,
                                  bool has_idle) {
  SourceRequest request = source_;
  request.range = range;
  const bool narrows = !source_.target.empty() && !target.empty();
  if (!target.empty() && !narrows) request.target = target;
  auto source = open_source(client_, request);
  if (!source) return source;
  if (narrows) {
    if (auto kept = keep_target(target, source->samples); !kept) return kept.error();
  }
  if (!is_history()) keep_range(range, source->samples);
  if (!has_idle) fold_idle(source->samples);
  if (!source->samples.rows().empty()) return source;
  return fail(ErrorCode::kNotFound, source->title + " has no samples",
              is_of_blocks(source->samples.time_kind)
                  ? "no thread of it was off the CPU then"
                  : "nothing used the CPU then, or too little for a sample");
}

Result<std::shared_ptr<const Source>> ShownSamples::get(const TimeRange& range,
                                                        const TargetRequest& target,
                                                        bool has_idle) {
  const auto known = std::ranges::find_if(kept_, [&](const Kept& kept) {
    const bool has_times = is_history() || kept.source->samples.times();
    return (!has_times || kept.range == range) && kept.target == target &&
           kept.has_idle == has_idle;
  });
  if (known != kept_.end()) {
    Kept kept = std::move(*known);
    kept_.erase(known);
    if (is_current(kept)) {
      kept_.push_front(kept);
      return kept.source;
    }
  }
  // Makes room first: both together may be more than there is.
  while (kept_.size() >= kMostKept) kept_.pop_back();
  auto opened = open(range, target, has_idle);
  if (!opened) return opened.error();
  auto shared = std::make_shared<const Source>(std::move(*opened));
  kept_.push_front({.range = range,
                    .target = target,
                    .has_idle = has_idle,
                    .read = std::chrono::steady_clock::now(),
                    .source = shared});
  return shared;
}

}  // namespace profd
