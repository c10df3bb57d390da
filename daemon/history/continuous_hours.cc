// The part of continuous mode that makes hour files.

#include <algorithm>
#include <utility>

#include "collectors/host/thread_priority.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/history/continuous.h"
#include "daemon/history/hour_size.h"

namespace profd {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;

// A window that is to be written waits for one turn at most.
constexpr auto kHourTurn = 10ms;

}  // namespace

// make_hours() ends when a window is to be written, whose end starts it again.
void Continuous::start_hours() {
  if (stopping_ || !writer_ || std::exchange(making_hours_, true)) return;
  spawn(parts_.io, make_hours());
}

boost::asio::awaitable<void> Continuous::make_hours() {
  while (!stopping_ && !writing_) {
    std::optional<HourPlan> plan = next_hour();
    if (!plan) break;
    const Wall::time_point hour = hour_of(plan->start);
    auto operation = make(std::move(*plan));
    Result<HourInfo> made = co_await std::move(operation);
    if (stopping_ && !made) break;
    adopt(std::move(made), hour);
    co_await remove_old();
  }
  making_hours_ = false;
  hours_made_.notify_all();
}

// The windows of the oldest hour that is over, as far as no file of that hour has them yet: after a
// step of the clock an hour may be over a second time.
std::optional<HourPlan> Continuous::next_hour() {
  const Wall::time_point now = read_clock();
  if (std::exchange(failed_in_, hour_of(now)) != hour_of(now)) failed_hours_.clear();
  const auto is_open = [this](Wall::time_point hour) {
    return (open_ && hour_of(open_->start) == hour) ||
           std::ranges::any_of(waiting_, [hour](const EndedWindow& window) {
             return hour_of(window.snapshot.started) == hour;
           });
  };
  HourPlan plan;
  for (const WindowInfo& window : store_.windows()) {
    const Wall::time_point hour = hour_of(window.start);
    if (!window.hour.empty() || hour + 1h > now || failed_hours_.contains(hour) || is_open(hour) ||
        window.end < now - limits().hours_max_age) {
      continue;
    }
    if (plan.windows.empty()) plan.start = hour;
    if (hour != plan.start || plan.windows.size() == kMaxWindowsOfHour) break;
    plan.windows.push_back(window.name);
  }
  if (plan.windows.empty()) return std::nullopt;
  plan.windows_dir = store_.windows_dir();
  plan.hours_dir = store_.hours_dir();
  plan.name = store_.unused_hour_name(plan.start);
  plan.limits = store_.hour_limits(max_bytes());
  plan.max_bytes = max_bytes_of_hour(max_bytes(), limits().hours_max_age);
  return plan;
}

boost::asio::awaitable<Result<HourInfo>> Continuous::make(HourPlan plan) {
  auto maker = std::make_unique<HourMaker>(std::move(plan));
  while (!stopping_) {
    // None: the hour needs more turns.
    auto turn = [&maker]() -> Result<std::optional<HourInfo>> {
      const LowPriority priority;
      auto active = std::move(maker);
      const Result<bool> done = active->advance(kHourTurn);
      if (done && !*done) {
        maker = std::move(active);
        return std::optional<HourInfo>();
      }
      std::optional<HourInfo> made;
      if (done) made = active->take();
      {
        const PriorityOfIoThread raised;  // the io thread allocated the plan
        active.reset();
      }
      if (!done) return done.error();
      return made;
    };
    Result<std::optional<HourInfo>> made = co_await worker().run(std::move(turn));
    if (!made) co_return made.error();
    if (*made) co_return std::move(**made);
  }
  co_return fail(ErrorCode::kUnavailable, "profd is shutting down");
}

void Continuous::adopt(Result<HourInfo> made, Wall::time_point hour) {
  if (!made) {
    failed_hours_.insert(hour);
    count_failure(WindowFailure::kHour);
    return log::warn("could not make the file of hour {}: {}", window_name(hour),
                     made.error().message);
  }
  count_over_share(made->over_share_samples, std::exchange(made->over_share_by_uid, {}));
  store_.adopt(std::move(*made));
}

}  // namespace profd
