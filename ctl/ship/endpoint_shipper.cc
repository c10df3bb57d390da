#include "ctl/ship/endpoint_shipper.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/api/history_api.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_refusal.h"

namespace profd {
namespace {

using std::chrono::milliseconds;

// An endpoint that fails and works by turns is logged once in this time.
constexpr std::chrono::minutes kQuietTime{1};

// Between two questions for windows while there are only some in the future.
constexpr std::chrono::seconds kFuturePause{10};

// For the rest of a window, once the program is to end.
constexpr std::chrono::seconds kMaxEnding{60};

// A rate refuses a profile over its burst for good, and smaller ones for a time. Those up to this
// size wait as they are: each half would have its own names, so the rate would have more to take.
constexpr std::size_t kLeastHalvedForRate = std::size_t{256} << 10;

// Of an error in a report.
constexpr std::size_t kMaxErrorBytes = 500;

bool is_unreadable(const Error& error) {
  return error.code == ErrorCode::kPermissionDenied || error.code == ErrorCode::kIo;
}

std::string loss_of_profile(PprofRefusal refusal) {
  const bool is_large =
      refusal == PprofRefusal::kTooLarge || refusal == PprofRefusal::kTooManyEntries;
  return is_large ? "too_large" : "malformed";
}

struct ListedWindow {
  std::string name;
  bool is_removed = false;
};

// Of windows and of removed ones, each oldest first.
std::vector<ListedWindow> in_one_order(const WindowNames& listed) {
  std::vector<ListedWindow> all;
  all.reserve(listed.windows.size() + listed.removed.size());
  auto removed = listed.removed.begin();
  for (const std::string& name : listed.windows) {
    for (; removed != listed.removed.end() && *removed < name; ++removed) {
      all.push_back({.name = *removed, .is_removed = true});
    }
    all.push_back({.name = name, .is_removed = false});
  }
  for (; removed != listed.removed.end(); ++removed) {
    all.push_back({.name = *removed, .is_removed = true});
  }
  return all;
}

// Of a window whose file could not be had until it was too old.
std::string loss_of_file(const Error& error) {
  if (error.code == ErrorCode::kNotFound) return "gone";
  if (error.code == ErrorCode::kMalformed) return "malformed";
  return is_unreadable(error) ? "unreadable" : "too_old";
}

}  // namespace

void EndpointShipper::run() {
  show();
  if (!settle_in_flight()) return;
  while (true) {
    const auto listed = parts_.source.windows_after(position_.after(parts_.clock.now()));
    if (!listed) {
      if (!wait_for_source(listed.error())) return;
      continue;
    }
    note_source();
    if (!ship_windows(*listed)) return;
    if (!parts_.clock.wait(milliseconds(0))) return;
  }
}

bool EndpointShipper::ship_windows(const WindowNames& listed) {
  bool is_idle = true;
  std::vector<std::string> gone;
  const std::vector<ListedWindow> windows = in_one_order(listed);
  for (const auto& [name, is_removed] : windows) {
    if (position_.skip(name, parts_.clock.now())) continue;
    is_idle = false;
    if (is_removed) {
      position_.drop_window(name, "gone");
      gone.push_back(name);
      continue;
    }
    log_gone(gone);
    report_.waiting = name;
    show();
    if (!ship_window(name) || !parts_.clock.wait(milliseconds(0))) return false;
  }
  log_gone(gone);
  // Dropped windows are stored together.
  if (!position_.is_saved() && !save()) return false;
  report_.waiting.clear();
  show();
  return !is_idle || leave_future(!windows.empty());
}

// The daemon has no window for the present. Where it does not know the position, it lists windows
// by their names, so none would come until the clock has passed that.
bool EndpointShipper::leave_future(bool has_names) {
  if (!position_.is_stuck(parts_.clock.now())) {
    return !has_names || parts_.clock.wait(kFuturePause);
  }
  const auto listed = parts_.source.windows_after("");
  if (!listed) return wait_for_source(listed.error());
  const std::string newest = position_.leave_future(listed->windows, parts_.clock.now());
  parts_.log(
      "window " + position_.state().window + ", the last one that is done, lies in the future: " +
      (newest.empty() ? "windows of the present" : "windows after " + newest) + " are sent now");
  return true;
}

bool EndpointShipper::settle_in_flight() {
  const std::string name = position_.settle_in_flight();
  if (name.empty()) return true;
  parts_.log("window " + name +
             " was in flight when profctl ended: it is unknown whether it arrived, and it is not "
             "sent again");
  return save();
}

bool EndpointShipper::ship_window(const std::string& name) {
  const auto start = start_of_window(name);
  if (!start) return drop_window(name, "malformed");
  if (is_too_old(*start)) return drop_window(name, "too_old");
  // Most windows have one length. So no window is in memory while it waits, but for the first.
  if (!wait_for(send_turn(*start, length_, phase_))) return false;
  Result<std::string> file = std::string();
  if (!fetch(name, *start, file)) return false;
  if (!file) return drop_window(name, loss_of_file(file.error()));
  const auto time = window_.open(std::move(*file));
  if (!time) return drop_window(name, loss_of_profile(time.error()));
  const bool is_running = ship_parts(name, *time);
  window_.close();
  return is_running;
}

bool EndpointShipper::fetch(const std::string& name, ShipTime start, Result<std::string>& file) {
  while (true) {
    file = parts_.source.window(name);
    if (file || is_final(file.error())) break;
    if (is_too_old(start)) return true;
    if (!wait_for_source(file.error())) return false;
  }
  note_source();
  if (file) {
    is_unreadable_logged_ = false;
  } else if (is_unreadable(file.error())) {
    note_unreadable(name, file.error());
  }
  return true;
}

// The client has some of these errors of its own, where it can't connect to the daemon: so those
// count while the daemon answers.
bool EndpointShipper::is_final(const Error& error) {
  if (is_unreadable(error)) return parts_.source.windows_after("").has_value();
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kMalformed;
}

bool EndpointShipper::ship_parts(const std::string& name, const WindowTime& time) {
  length_ = time.length;
  if (position_.is_in_future(time.start, parts_.clock.now())) {
    return drop_window(name, "in_future");
  }
  const SendTurn turn = send_turn(time.start, length_, phase_);
  if (!wait_for(turn)) return false;
  auto split = window_.split(parts_.split);
  if (!split) return drop_window(name, loss_of_profile(split.error()));
  position_.begin(*split);
  pending_.assign(std::make_move_iterator(split->parts.begin()),
                  std::make_move_iterator(split->parts.end()));
  pause_ = turn.pause(parts_.clock.now(), pending_.size());
  while (!pending_.empty()) {
    if (is_too_old(time.start)) {
      drop_pending("too_old");
    } else if (is_end_overdue() || !ship_part(name)) {
      leave_window();
      return false;
    }
  }
  return finish(name);
}

bool EndpointShipper::wait_for(const SendTurn& turn) {
  const milliseconds time = turn.wait(parts_.clock.now());
  return time.count() <= 0 || parts_.clock.wait(time);
}

bool EndpointShipper::is_end_overdue() {
  if (!ending_since_ && !parts_.clock.wait(milliseconds(0))) ending_since_ = parts_.clock.now();
  return ending_since_ && parts_.clock.now() - *ending_since_ > kMaxEnding;
}

// The program ends. Where a part of the window may have arrived, the next process does not send
// the rest; otherwise it sends all. The disk is tried once.
void EndpointShipper::leave_window() {
  using Saved = ShipPosition::Saved;
  if (position_.may_have_arrived()) drop_pending("ended");
  (void)position_.save(position_.may_have_arrived() ? Saved::kAll : Saved::kWithoutWindow);
}

bool EndpointShipper::ship_part(const std::string& name) {
  if (halve_large_part()) return true;
  const ServicePart& part = pending_.front();
  if (auto checked = parts_.engine.check_labels(part.labels); !checked) {
    const auto encoded = encode(part);
    note_refusal(checked.error());
    drop_profile("invalid_labels", encoded ? encoded->size() : 0);
    return true;
  }
  const auto encoded = encode(part);
  if (!encoded) {
    drop_profile(loss_of_profile(encoded.error()), 0);
    return true;
  }
  if (encoded->size() > parts_.engine.traits().max_profile_bytes) {
    halve_or_drop(encoded->size());
    return true;
  }
  return send(name, *encoded);
}

PprofResult<std::string> EndpointShipper::encode(const ServicePart& part) {
  auto profile = window_.profile_of(part, parts_.engine.traits().threads);
  if (!profile) return profile.error();
  return parts_.engine.encode(part.labels, std::move(*profile));
}

bool EndpointShipper::send(const std::string& name, const std::string& encoded) {
  if (asks_first_) {
    if (const auto answered = ask(); !answered) return wait_for_endpoint(answered.error());
    asks_first_ = false;
  }
  if (auto connected = parts_.client.connect(); !connected) {
    return wait_for_endpoint(connected.error());
  }
  if (!position_.is_in_flight(name)) {
    position_.put_in_flight(name);
    if (!save()) return false;
  }
  const PushMessage request = parts_.engine.profile_request(pending_.front().labels, encoded);
  const PushOutcome outcome = parts_.engine.classify(push(request));
  if (outcome.kind == PushOutcome::Kind::kStored || outcome.kind == PushOutcome::Kind::kUnknown) {
    position_.note_arrival();
  } else if (!position_.may_have_arrived() && outcome.kind != PushOutcome::Kind::kRefused) {
    if (!save(ShipPosition::Saved::kWithoutWindow)) return false;
  }
  return settle(outcome, encoded.size());
}

PushReply EndpointShipper::push(const PushMessage& message) {
  report_.asked_at = utc_text_of(parts_.clock.now());
  show();
  PushReply reply = parts_.client.push(message);
  report_.asked_at.clear();
  show();
  return reply;
}

Result<void> EndpointShipper::ask() {
  const PushReply reply = push(parts_.engine.empty_request());
  const PushOutcome outcome = parts_.engine.classify(reply);
  const bool is_answer =
      reply.reached == PushReply::Reached::kAnswered && outcome.kind != PushOutcome::Kind::kUnknown;
  if (!is_answer) return outcome.error;
  return {};
}

bool EndpointShipper::settle(const PushOutcome& outcome, std::size_t profile_bytes) {
  switch (outcome.kind) {
    case PushOutcome::Kind::kStored:
      note_success();
      position_.count_sent(profile_bytes);
      pending_.pop_front();
      tries_ = 0;
      show();
      // A program that is to end sends the rest of the window first.
      (void)parts_.clock.wait(pause_after(profile_bytes));
      return true;
    case PushOutcome::Kind::kUnknown:
      asks_first_ = true;
      drop_profile("unknown", profile_bytes);
      return wait_for_endpoint(outcome.error);
    case PushOutcome::Kind::kRefused:
      drop_refused(outcome.error, profile_bytes);
      return true;
    case PushOutcome::Kind::kTooLarge:
      if (outcome.most_tries != 0 && ++tries_ >= outcome.most_tries) {
        drop_refused(outcome.error, profile_bytes);
        return true;
      }
      if (!wait_for_endpoint(outcome.error, outcome.retry_after)) return false;
      // The rate of the tenant may refuse the smallest profile too: it is not dropped for that.
      if (outcome.error.code == ErrorCode::kTooLarge ||
          (profile_bytes > kLeastHalvedForRate && pending_.front().samples.size() > 1)) {
        halve_or_drop(profile_bytes);
      }
      return true;
    case PushOutcome::Kind::kLater:
      break;
  }
  return wait_for_endpoint(outcome.error, outcome.retry_after);
}

bool EndpointShipper::finish(const std::string& name) {
  position_.finish(name);
  show();
  return save();
}

bool EndpointShipper::drop_window(const std::string& name, const std::string& reason) {
  position_.drop_window(name, reason);
  return true;
}

bool EndpointShipper::save(ShipPosition::Saved what) {
  const bool was_well = failures_ == 0;
  while (true) {
    const auto saved = position_.save(what);
    if (saved) break;
    if (!wait_after_failure(saved.error())) return false;
  }
  if (was_well) note_success();
  return true;
}

bool EndpointShipper::wait_after_failure(const Error& error,
                                         std::optional<std::chrono::seconds> least,
                                         const std::string& what) {
  // What ends with the program does not fail.
  if (!parts_.clock.wait(milliseconds(0))) return false;
  note_failure(error, what);
  const milliseconds pause = backoff(failures_++, parts_.clock.random());
  return parts_.clock.wait(std::max<milliseconds>(pause, least.value_or(std::chrono::seconds(0))));
}

// Errors of the connection have the url. Those of an answer do not.
bool EndpointShipper::wait_for_endpoint(const Error& error,
                                        std::optional<std::chrono::seconds> least) {
  const bool has_url = error.message.find(parts_.url) != std::string::npos;
  return wait_after_failure(error, least, has_url ? "fails" : "fails at " + parts_.url);
}

bool EndpointShipper::wait_for_source(const Error& error) {
  source_fails_ = source_fails_ || failures_ == 0;
  return wait_after_failure(error);
}

void EndpointShipper::drop_profile(const std::string& reason, std::size_t bytes) {
  position_.count_loss(reason, bytes);
  pending_.pop_front();
  tries_ = 0;
  show();
}

void EndpointShipper::drop_refused(const Error& error, std::size_t bytes) {
  note_success();  // it answers
  note_refusal(error);
  drop_profile("refused", bytes);
}

void EndpointShipper::drop_pending(const std::string& reason) {
  while (!pending_.empty()) {
    if (halve_large_part()) continue;
    const auto encoded = encode(pending_.front());
    drop_profile(reason, encoded ? encoded->size() : 0);
  }
}

bool EndpointShipper::halve_large_part() {
  if (pending_.front().samples.size() <= parts_.engine.traits().max_samples) return false;
  halve_or_drop(0);
  return true;
}

void EndpointShipper::halve_or_drop(std::size_t bytes) {
  if (pending_.front().samples.size() < 2) {
    drop_profile("too_large", bytes);
    return;
  }
  tries_ = 0;
  ServicePart half = take_half(pending_.front());
  pending_.insert(pending_.begin() + 1, std::move(half));
}

void EndpointShipper::note_success() {
  if (std::exchange(failures_, 0) == 0) return;
  recovered_at_ = parts_.clock.now();
  report_.failing_since.clear();
  if (std::exchange(is_failure_logged_, false)) parts_.log("works again");
  show();
}

void EndpointShipper::note_source() {
  if (std::exchange(source_fails_, false)) note_success();
}

// A failure that does not last, soon after another one, is not logged: a tenant's rate may refuse
// each second request.
void EndpointShipper::note_failure(const Error& error, const std::string& what) {
  const ShipTime now = parts_.clock.now();
  if (failures_ == 0) {
    failing_since_ = now;
    report_.failing_since = utc_text_of(now);
  }
  const bool is_rare = !recovered_at_ || now - *recovered_at_ >= kQuietTime;
  if (!is_failure_logged_ && (is_rare || now - failing_since_ >= kQuietTime)) {
    is_failure_logged_ = true;
    log_error(what, error);
  }
  note_error(error);
}

// Messages may differ for each series, so the time between two lines is bounded too.
void EndpointShipper::note_refusal(const Error& error) {
  const ShipTime now = parts_.clock.now();
  const bool is_rare = !refusal_logged_at_ || now - *refusal_logged_at_ >= kQuietTime;
  if (is_rare && std::exchange(refusal_, error.message) != error.message) {
    refusal_logged_at_ = now;
    log_error("refuses a profile", error);
  }
  note_error(error);
}

// Once, until a window can be read: the others may be no better.
void EndpointShipper::note_unreadable(const std::string& name, const Error& error) {
  if (!std::exchange(is_unreadable_logged_, true)) {
    log_error("could not read window " + name, error);
  }
  note_error(error);
}

void EndpointShipper::note_error(const Error& error) {
  report_.last_error = printable_utf8(error_text(error), kMaxErrorBytes);
  report_.last_error_at = utc_text_of(parts_.clock.now());
  show();
}

void EndpointShipper::show() {
  if (!parts_.show) return;
  report_.state = position_.state();
  parts_.show(report_);
}

void EndpointShipper::log_error(const std::string& what, const Error& error) {
  parts_.log(what + ": " + error_text(error));
}

void EndpointShipper::log_gone(std::vector<std::string>& names) {
  if (names.empty()) return;
  parts_.log("windows left the history before they were sent: " + std::to_string(names.size()) +
             ", " + names.front() + " to " + names.back() +
             "; max_age and max_bytes in profd.toml decide how long it keeps windows");
  names.clear();
}

bool EndpointShipper::is_too_old(ShipTime start) {
  return start < parts_.clock.now() - parts_.engine.traits().max_age;
}

// No more than the engine's rate, and the profiles of a window not all at once.
milliseconds EndpointShipper::pause_after(std::size_t profile_bytes) const {
  const double seconds =
      static_cast<double>(profile_bytes) / parts_.engine.traits().bytes_per_second;
  const milliseconds rate(static_cast<std::int64_t>(seconds * 1000));
  return pending_.empty() ? rate : std::max(rate, pause_);
}

}  // namespace profd
