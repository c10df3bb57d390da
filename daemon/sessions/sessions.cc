#include "daemon/sessions/sessions.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/sessions/authorization.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono_literals::operator""s;

bool may_see(const Caller& caller, uid_t owner) { return caller.privileged || caller.uid == owner; }

Error not_found(const std::string& id) {
  return fail(ErrorCode::kNotFound, "no session " + id, "see profctl list");
}

}  // namespace

struct Sessions::Session {
  Session(boost::asio::io_context& io, std::shared_ptr<Recording> started)
      : recording(std::move(started)), duration(io), stored(io) {
    renew_lease();
  }

  void renew_lease() {
    if (const auto lease_ms = recording->request().lease_ms; lease_ms != 0) {
      lease_end = steady_clock::now() + milliseconds(lease_ms);
    }
  }

  std::shared_ptr<Recording> recording;
  steady_clock::time_point lease_end = steady_clock::time_point::max();
  boost::asio::steady_timer duration;  // ends the session when it expires
  unsigned dumps = 0;
  unsigned dumps_being_written = 0;
  std::uint64_t dump_bytes = 0;  // of dumps_being_written

  // Of an ended session:
  Measurement measurement;  // empty: not finished yet, or stored
  bool is_being_stored = false;
  bool was_tried = false;   // store() was called
  bool has_failed = false;  // the recording has no data
  AsyncCondition stored;    // notified when is_being_stored becomes false
};

Sessions::Sessions(Parts parts)
    : parts_(std::move(parts)),
      second_(parts_.io),
      export_turns_(parts_.io, parts_.limits.unprivileged_exports_at_once) {
  spawn(parts_.io, check_every_second());
}

Result<void> Sessions::check(const Caller& caller, const StartRequest& request) const {
  if (shutting_down_) return fail(ErrorCode::kUnavailable, "profd is shutting down");
  if (request.target.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no target is given",
                "name a process, a command, a user, a cgroup, or all");
  }
  if (auto allowed = authorize_target(caller, request.target); !allowed) return allowed;
  if (caller.privileged) return {};
  return check_start(parts_.limits, held_by(caller.uid));
}

boost::asio::awaitable<Result<std::string>> Sessions::start(Caller caller, StartRequest request) {
  if (auto allowed = check(caller, request); !allowed) co_return allowed.error();
  const auto recorder = std::ranges::find_if(
      parts_.recorders, [&](const Recorder* one) { return one->records(request.event); });
  auto preparing = (*recorder)->prepare(request.target);
  co_await std::move(preparing);
  // The caller may have started others meanwhile, and profd may be shutting down.
  if (auto allowed = check(caller, request); !allowed) co_return allowed.error();
  const std::string id = unused_id();
  auto recording = (*recorder)->start({.id = id, .owner = caller, .start = request});
  if (!recording) co_return recording.error();
  const auto session = std::make_shared<Session>(parts_.io, std::move(*recording));
  if (sessions_.empty()) second_.cancel();  // was set for longer
  sessions_.emplace(id, session);
  log::info("session {} started by uid {}: {}, {}{}", id, caller.uid,
            log_text(describe(request.target)), log_text(request.event),
            log_text(request.functions.empty() ? "" : " " + request.functions));
  auto begin = session->recording->wait_until_begun();
  const Result<void> begun = co_await std::move(begin);
  if (!begun) {
    sessions_.erase(id);
    co_return begun.error();
  }
  begin_duration(session);
  co_return id;
}

void Sessions::begin_duration(const SessionPtr& session) {
  const std::uint64_t duration_ms = session->recording->request().duration_ms;
  if (duration_ms == 0 || !session->recording->is_running()) return;
  session->duration.expires_after(milliseconds(duration_ms));
  session->duration.async_wait([this, session](const boost::system::error_code& error) {
    if (error || !session->recording->is_running()) return;
    session->recording->stop();
    store_in_background(session);
  });
}

Result<SessionInfo> Sessions::session(const Caller& caller, const std::string& id) {
  const Result<Found> found = find(caller, id);
  if (!found) return found.error();
  if (found->stored != nullptr) return found->stored->session;
  found->session->renew_lease();
  return found->session->recording->describe();
}

std::vector<SessionInfo> Sessions::sessions(const Caller& caller) const {
  std::vector<SessionInfo> infos;
  for (const auto& [id, session] : sessions_) {
    if (may_see(caller, session->recording->owner().uid)) {
      infos.push_back(session->recording->describe());
    }
  }
  for (const StoredResult* stored : parts_.results.all()) {
    if (!stored->is_dump && may_see(caller, stored->session.uid)) infos.push_back(stored->session);
  }
  return infos;
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::stop(Caller caller, std::string id) {
  const Result<Found> found = find(caller, id);
  if (!found) co_return found.error();
  if (found->stored != nullptr) {
    if (auto there = parts_.results.check(*found->stored); !there) co_return there.error();
    co_return found->stored->info;
  }
  found->session->recording->stop();
  auto storing = store(found->session, user_of(caller, parts_.owners));
  Result<ResultInfo> stored = co_await std::move(storing);
  if (found->session->has_failed) sessions_.erase(id);  // the caller gets the error
  co_return stored;
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::dump(Caller caller, std::string id) {
  const Result<Found> found = find(caller, id);
  if (!found) co_return found.error();
  const SessionPtr session = found->session;
  if (!session || !session->recording->is_running()) {
    co_return fail(ErrorCode::kInvalidArgument, "session " + id + " has ended",
                   "profctl stop " + id + " fetches it");
  }
  const std::uint64_t bytes = session->recording->bytes();
  if (!caller.privileged) {
    auto fits = check_dump(parts_.limits, held_by(caller.uid), bytes);
    if (!fits) co_return fits.error();
  }
  ++session->dumps_being_written;
  session->dump_bytes += bytes;
  auto writing = write_dump(session, user_of(caller, parts_.owners));
  Result<StoredResult> written = co_await std::move(writing);
  session->dump_bytes -= bytes;
  --session->dumps_being_written;
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  parts_.results.adopt(std::move(*written));
  co_return info;
}

boost::asio::awaitable<Result<StoredResult>> Sessions::write_dump(SessionPtr session,
                                                                  User waiting) {
  auto copying = session->recording->copy();
  Result<Measurement> copy = co_await std::move(copying);
  if (!copy) co_return copy.error();
  StoredResult result;
  result.session = session->recording->describe();
  result.is_dump = true;
  result.user = owner_of(*session);
  result.keep = kShortKeeping;
  result.info.result = session->recording->id() + "-dump-" + std::to_string(++session->dumps);
  auto writing = write(*copy, std::move(result), waiting);
  co_return co_await std::move(writing);
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::export_windows(Caller caller,
                                                                    ExportRequest request) {
  const User user = user_of(caller, parts_.owners);
  auto making = make_export(caller, std::move(request));
  if (!user) co_return co_await std::move(making);
  if (export_turns_.has(*user)) {
    co_return fail(ErrorCode::kBusy, "another export of yours is active", "wait until it ends");
  }
  auto in_turn = export_turns_.run(*user, std::move(making));
  co_return co_await std::move(in_turn);
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::make_export(Caller caller,
                                                                 ExportRequest request) {
  std::uint64_t max_bytes = parts_.limits.session_max_bytes;
  if (!caller.privileged) {
    const Holdings held = held_by(caller.uid);
    if (auto fits = check_dump(parts_.limits, held, 0); !fits) co_return fits.error();
    const std::uint64_t most = parts_.limits.unprivileged_max_bytes;
    max_bytes = most - std::min(held.bytes, most);
  }
  const std::optional<uid_t> user = user_of(caller, parts_.owners);
  WindowHistory::ExportPlace place{.directory = parts_.results.directory(),
                                   .user = user,
                                   .account = parts_.results.account_of(user),
                                   .max_memory_bytes = max_bytes};
  auto making = parts_.history.make_export(caller, std::move(request), std::move(place));
  Result<StoredResult> stored = co_await std::move(making);
  if (!stored) co_return stored.error();
  const TargetRequest& target = stored->session.target;
  log::info("history exported by uid {}: {}, {} samples", caller.uid,
            target.empty() ? "all" : log_text(describe(target)),
            stored->info.summary.ledger.written);
  ResultInfo info = stored->info;
  parts_.results.adopt(std::move(*stored));
  co_return info;
}

Result<OpenedFile> Sessions::open_result_file(const Caller& caller, const std::string& result,
                                              const std::string& path) const {
  const Result<const StoredResult*> stored = find_stored(caller, result);
  if (!stored) return stored.error();
  return parts_.results.open_file(**stored, path);
}

Result<void> Sessions::remove_result(const Caller& caller, const std::string& result) {
  const Result<Found> found = find(caller, result);
  if (!found) return found.error();
  if (found->session) return discard(found->session);
  Result<void> removed = parts_.results.remove(result);
  delete_hidden();
  return removed;
}

Result<void> Sessions::discard(const SessionPtr& session) {
  const std::string id = session->recording->id();
  if (session->recording->is_running() || !session->was_tried) return not_found(id);
  if (session->is_being_stored) {
    return fail(ErrorCode::kBusy, "session " + id + " is being stored", "try again");
  }
  sessions_.erase(id);
  spawn(parts_.io, drop(session));
  return {};
}

// In the background. The worker destroys the data, since that takes long.
boost::asio::awaitable<void> Sessions::drop(SessionPtr session) {
  auto job =
      [data = std::exchange(session->measurement, nullptr)](CodeNaming&) mutable -> Result<void> {
    data = nullptr;
    return {};
  };
  auto dropping = parts_.workers.run(owner_of(*session), std::move(job));
  (void)co_await std::move(dropping);
  auto releasing = release(session->recording);
  co_await std::move(releasing);
}

// In the background, since the result is gone for all callers already.
void Sessions::delete_hidden() {
  std::vector<HiddenResult> files = parts_.results.take_hidden();
  if (files.empty()) return;
  spawn(parts_.io, delete_on_worker(std::move(files)));
}

boost::asio::awaitable<void> Sessions::delete_on_worker(std::vector<HiddenResult> files) {
  auto job = [directory = parts_.results.directory(), files = std::move(files)](
                 CodeNaming&) mutable -> Result<void> { return remove_hidden(directory, files); };
  auto deleting = parts_.workers.run(std::nullopt, std::move(job));
  const Result<void> deleted = co_await std::move(deleting);
  if (!deleted) log::warn("{}", deleted.error().message);
}

Sessions::User Sessions::owner_of(const Session& session) const {
  return user_of(session.recording->owner(), parts_.owners);
}

Result<Sessions::Found> Sessions::find(const Caller& caller, const std::string& id) const {
  Found found;
  uid_t owner = 0;
  if (const auto session = sessions_.find(id); session != sessions_.end()) {
    found.session = session->second;
    owner = found.session->recording->owner().uid;
  } else if (found.stored = parts_.results.find(id); found.stored != nullptr) {
    owner = found.stored->session.uid;
  } else {
    return not_found(id);
  }
  if (may_see(caller, owner)) return found;
  return fail(ErrorCode::kPermissionDenied, "session " + id + " belongs to another user",
              "ask as root or as a member of the group profd; 'profctl list' shows your own");
}

Result<const StoredResult*> Sessions::find_stored(const Caller& caller,
                                                  const std::string& id) const {
  const Result<Found> found = find(caller, id);
  if (!found) return found.error();
  if (found->stored == nullptr) return not_found(id);
  return found->stored;
}

Holdings Sessions::held_by(uid_t uid) const {
  const uid_t user = parts_.owners.owner_of(uid);
  const auto is_of_user = [&](uid_t owner) { return parts_.owners.owner_of(owner) == user; };
  Holdings held;
  if (parts_.history.is_busy_for(user)) ++held.dumps;
  for (const StoredResult* stored : parts_.results.all()) {
    if (!is_of_user(stored->session.uid)) continue;
    ++(stored->is_dump ? held.dumps : held.sessions);
    held.bytes += stored->bytes();
  }
  for (const auto& [id, session] : sessions_) {
    if (!is_of_user(session->recording->owner().uid)) continue;
    ++held.sessions;
    held.dumps += session->dumps_being_written;
    held.bytes += session->recording->bytes() + session->dump_bytes;
  }
  return held;
}

std::string Sessions::unused_id() const {
  for (;;) {
    std::string id = random_id();
    if (!sessions_.contains(id) && parts_.results.find(id) == nullptr) return id;
  }
}

void Sessions::store_in_background(const SessionPtr& session) {
  boost::asio::co_spawn(parts_.io, store(session, owner_of(*session)),
                        [session](const std::exception_ptr&, const Result<ResultInfo>& stored) {
                          if (!stored) {
                            log::warn("session {} is not stored: {}", session->recording->id(),
                                      log_text(stored.error().message));
                          }
                        });
}

// Several coroutines may wait for the same session; the first one gives it to the worker.
boost::asio::awaitable<Result<ResultInfo>> Sessions::store(SessionPtr session, User waiting) {
  const std::string id = session->recording->id();
  session->duration.cancel();  // it would keep the session, and the io context from running dry
  while (session->is_being_stored) {
    co_await session->stored.wait();
  }
  if (const StoredResult* stored = parts_.results.find(id)) co_return stored->info;
  const bool was_stored = session->was_tried && !session->measurement && !session->has_failed;
  if (was_stored) co_return not_found(id);  // the result was removed since
  session->was_tried = session->is_being_stored = true;
  auto writing = write_final(session, waiting);
  Result<StoredResult> written = co_await std::move(writing);
  session->is_being_stored = false;
  session->stored.notify_all();
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  parts_.results.adopt(std::move(*written));
  sessions_.erase(id);
  spawn(parts_.io, release(session->recording));
  co_return info;
}

boost::asio::awaitable<Result<StoredResult>> Sessions::write_final(SessionPtr session,
                                                                   User waiting) {
  Recording& recording = *session->recording;
  if (!session->measurement) {
    auto finishing = recording.finish();
    Result<Measurement> measurement = co_await std::move(finishing);
    session->has_failed = !measurement;
    if (!measurement) co_return measurement.error();
    session->measurement = std::move(*measurement);
  }
  StoredResult result;
  result.session = recording.describe();
  result.user = owner_of(*session);
  result.keep = recording.owner().privileged ? 0s : parts_.limits.unprivileged_keep;
  result.info.result = recording.id();
  auto writing = write(session->measurement, std::move(result), waiting);
  co_return co_await std::move(writing);
}

// The worker destroys a measurement that is on the disk, since that takes long, and that of a dump
// in any case. Another one that could not be stored stays.
boost::asio::awaitable<Result<StoredResult>> Sessions::write(Measurement& measurement,
                                                             StoredResult result, User waiting) {
  auto job = [directory = parts_.results.directory(), &measurement, result = std::move(result),
              account = parts_.results.account_of(result.user)](CodeNaming& naming) {
    Result<StoredResult> stored = write_result(
        directory, result, [&](ResultWriter& writer) { return measurement(naming, writer); },
        account);
    if (stored || result.is_dump) measurement = nullptr;
    return stored;
  };
  auto writing = parts_.workers.run(waiting, std::move(job));
  co_return co_await std::move(writing);
}

// In the background, since the caller has its result already.
boost::asio::awaitable<void> Sessions::release(std::shared_ptr<Recording> recording) {
  if (std::function<void()> memory = recording->on_stored()) {
    auto job = [memory = std::move(memory)](CodeNaming&) -> Result<void> {
      memory();
      return {};
    };
    auto releasing = parts_.workers.run(user_of(recording->owner(), parts_.owners), std::move(job));
    (void)co_await std::move(releasing);
  }
  recording->on_released();
}

boost::asio::awaitable<void> Sessions::check_every_second() {
  while (!shutting_down_) {
    // Without sessions only results expire, which have minutes.
    expire_with_others(second_, sessions_.empty() ? 4s : 1s);
    co_await wait_for(second_);
    if (shutting_down_) co_return;
    for (Recorder* const recorder : parts_.recorders) recorder->every_second();
    const std::map<std::string, SessionPtr> sessions = sessions_;
    for (const auto& [id, session] : sessions) end_if_unwanted(session);
    expire();
  }
}

// A recording may also have ended by itself.
void Sessions::end_if_unwanted(const SessionPtr& session) {
  Recording& recording = *session->recording;
  if (recording.is_running() && session->lease_end < steady_clock::now()) {
    log::info("session {} ends: its lease has expired", recording.id());
    recording.stop();
  }
  if (recording.is_running() && recording.has_lost_its_targets()) recording.stop();
  if (!recording.is_running() && !session->was_tried) store_in_background(session);
}

// Data of unprivileged callers that could not be stored are dropped as well.
void Sessions::expire() {
  parts_.results.expire();
  delete_hidden();
  const auto oldest = steady_clock::now() - parts_.limits.unprivileged_keep;
  std::erase_if(sessions_, [oldest](const auto& entry) {
    const Session& session = *entry.second;
    const bool is_kept_shortly = session.has_failed || !session.recording->owner().privileged;
    const auto ended = session.recording->ended();
    return is_kept_shortly && ended && *ended < oldest && !session.is_being_stored;
  });
}

boost::asio::awaitable<bool> Sessions::shut_down() {
  shutting_down_ = true;
  second_.cancel();
  bool all_stored = true;
  std::vector<SessionPtr> sessions;
  for (const auto& [id, session] : sessions_) sessions.push_back(session);
  // Those of privileged callers first, since the service manager does not wait for ever.
  std::stable_partition(sessions.begin(), sessions.end(),
                        [](const SessionPtr& one) { return one->recording->owner().privileged; });
  for (const SessionPtr& session : sessions) session->recording->stop();
  for (const SessionPtr& session : sessions) {
    auto storing = store(session, owner_of(*session));
    const Result<ResultInfo> stored = co_await std::move(storing);
    if (stored || session->has_failed) continue;
    log::error("session {} is lost: {}", session->recording->id(),
               log_text(stored.error().message));
    all_stored = false;
  }
  co_return all_stored;
}

}  // namespace profd
