#include "ctl/ship/ship_position.h"

#include <algorithm>
#include <utility>

#include "formats/api/history_api.h"

namespace profd {

Result<void> ShipPosition::save(Saved what) {
  if (what == Saved::kAll) return file_.store(state_);
  state_.in_flight.clear();
  return file_.store(before_);
}

std::string ShipPosition::settle_in_flight() {
  if (state_.in_flight.empty()) return {};
  ++state_.windows_unknown;
  state_.window = std::exchange(state_.in_flight, {});
  return state_.window;
}

std::string ShipPosition::after(ShipTime now) {
  if (has_future_name(state_.window, now)) {
    newest_future_ = std::max(newest_future_, state_.window);
  } else {
    past_.reset();
  }
  return past_.value_or(state_.window);
}

bool ShipPosition::skip(const std::string& name, ShipTime now) {
  if (!has_future_name(name, now)) return false;
  if (name > newest_future_) {
    newest_future_ = name;
    ++state_.windows_dropped["in_future"];
  }
  return true;
}

bool ShipPosition::is_stuck(ShipTime now) const {
  return !past_ && has_future_name(state_.window, now);
}

std::string ShipPosition::leave_future(const std::vector<std::string>& names, ShipTime now) {
  std::string newest;
  for (const std::string& name : names) {
    if (!has_future_name(name, now)) newest = std::max(newest, name);
  }
  past_ = newest;
  return newest;
}

void ShipPosition::begin(const WindowParts& split) {
  before_ = state_;
  first_loss_.clear();
  may_have_arrived_ = false;
  state_.rows_dropped += split.samples_dropped;
  state_.services_other += split.services_over_limit;
  state_.series_joined += split.series_joined;
}

void ShipPosition::count_sent(std::size_t bytes) {
  ++state_.profiles_sent;
  state_.bytes_sent += bytes;
}

void ShipPosition::count_loss(const std::string& reason, std::size_t bytes) {
  if (first_loss_.empty()) first_loss_ = reason;
  ++state_.profiles_dropped[reason];
  state_.bytes_dropped[reason] += bytes;
}

void ShipPosition::finish(const std::string& name) {
  const bool is_stored = state_.profiles_sent > before_.profiles_sent;
  if (!is_stored && !first_loss_.empty()) return drop_window(name, first_loss_);
  state_.window = name;
  state_.in_flight.clear();
  ++state_.windows_sent;
}

void ShipPosition::drop_window(const std::string& name, const std::string& reason) {
  state_.window = name;
  state_.in_flight.clear();
  ++state_.windows_dropped[reason];
}

bool ShipPosition::has_future_name(const std::string& name, ShipTime now) const {
  const auto start = start_of_window(name);
  return start && is_in_future(*start, now);
}

}  // namespace profd
