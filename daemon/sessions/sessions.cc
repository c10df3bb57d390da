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
#include "daemon/sessions/session.h"
#include "formats/api/history_api.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using std::chrono::milliseconds;

bool may_see(const Caller& caller, uid_t owner) { return caller.privileged || caller.uid == owner; }

}  // namespace

Error no_session(const std::string& id) {
  return fail(ErrorCode::kNotFound, "no session " + id, "see profctl list");
}

Sessions::Sessions(Parts parts)
    : parts_(std::move(parts)),
      second_(parts_.io),
      authorization_turns_(parts_.io),
      export_turns_(parts_.io, parts_.limits.unprivileged_exports_at_once) {
  spawn(parts_.io, check_every_second());
}

Result<void> Sessions::check(const Caller& caller, const StartRequest& request) const {
  if (shutting_down_) return fail(ErrorCode::kUnavailable, "profd is shutting down");
  if (request.target.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no target is given",
                "name a process, a command, a user, a cgroup, or all");
  }
  if (caller.privileged) return {};
  return check_start(parts_.limits, held_by(caller.uid));
}

boost::asio::awaitable<Result<void>> Sessions::authorize(Caller caller, TargetRequest target) {
  const User user = user_of(caller, parts_.owners);
  if (!user) co_return authorize_target(caller, target);
  auto authorizing = authorize_in_parts(caller, std::move(target));
  auto in_turn = authorization_turns_.run(*user, std::move(authorizing));
  co_return co_await std::move(in_turn);
}

// The check of a pid needs up to 60 us. Other tasks run between two parts.
boost::asio::awaitable<Result<void>> Sessions::authorize_in_parts(Caller caller,
                                                                  TargetRequest target) {
  constexpr std::size_t kPidsAtOnce = 16;
  std::vector<std::uint32_t> pids = std::move(target.pids);
  for (;;) {
    const auto part = pids.end() - static_cast<std::ptrdiff_t>(std::min(pids.size(), kPidsAtOnce));
    target.pids.assign(part, pids.end());
    pids.erase(part, pids.end());
    if (auto allowed = authorize_target(caller, target); !allowed) co_return allowed;
    if (pids.empty()) co_return Result<void>();
    co_await yield();
  }
}

boost::asio::awaitable<Result<std::string>> Sessions::start(Caller caller, StartRequest request) {
  if (auto fits = check(caller, request); !fits) co_return fits.error();
  const auto recorder = std::ranges::find_if(
      parts_.recorders, [&](const Recorder* one) { return one->records(request.event); });
  if (auto valid = (*recorder)->check(request); !valid) co_return valid.error();
  auto authorizing = authorize(caller, request.target);
  const Result<void> allowed = co_await std::move(authorizing);
  if (!allowed) co_return allowed.error();
  auto preparing = (*recorder)->prepare(request.target);
  co_await std::move(preparing);
  // The caller may have started others meanwhile, and profd may be shutting down.
  if (auto fits = check(caller, request); !fits) co_return fits.error();
  if (!(*recorder)->checks_rights()) {
    if (auto still = authorize_target(caller, request.target); !still) co_return still.error();
  }
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
  if (!user) {
    co_return co_await std::move(making);
  }
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
  const bool of_blocks = asks_for_blocks(request.event) && parts_.off_cpu_history != nullptr;
  WindowHistory& history = of_blocks ? *parts_.off_cpu_history : parts_.history;
  auto making = history.make_export(caller, std::move(request), std::move(place));
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
    return no_session(id);
  }
  if (may_see(caller, owner)) return found;
  return fail(ErrorCode::kPermissionDenied, "session " + id + " belongs to another user",
              "ask as root or as a member of the group profd; 'profctl list' shows your own");
}

Result<const StoredResult*> Sessions::find_stored(const Caller& caller,
                                                  const std::string& id) const {
  const Result<Found> found = find(caller, id);
  if (!found) return found.error();
  if (found->stored == nullptr) return no_session(id);
  return found->stored;
}

Holdings Sessions::held_by(uid_t uid) const {
  const uid_t user = parts_.owners.owner_of(uid);
  const auto is_of_user = [&](uid_t owner) { return parts_.owners.owner_of(owner) == user; };
  Holdings held;
  if (parts_.history.is_busy_for(user)) ++held.dumps;
  if (parts_.off_cpu_history != nullptr && parts_.off_cpu_history->is_busy_for(user)) ++held.dumps;
  for (const StoredResult* stored : parts_.results.all()) {
    if (!is_of_user(stored->session.uid)) continue;
    ++(stored->is_dump ? held.dumps : held.sessions);
    held.bytes += stored->bytes();
  }
  for (const auto& [id, session] : sessions_) {
    if (!is_of_user(session->recording->owner().uid)) continue;
    ++held.sessions;
    held.dumps += session->dumps_being_written;
    held.bytes += session->recording->bytes() + session->dump_bytes + session->part_bytes;
  }
  return held;
}

std::string Sessions::unused_id() const {
  for (;;) {
    std::string id = random_id();
    if (!sessions_.contains(id) && parts_.results.find(id) == nullptr) return id;
  }
}

}  // namespace profd
