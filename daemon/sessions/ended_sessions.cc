// What becomes of a session that has ended: a worker stores its data, or they are dropped.

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "collectors/host/thread_priority.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/sessions/session.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using std::chrono::steady_clock;
using std::chrono_literals::operator""s;

constexpr auto kTrimInterval = 60s;  // of names that workers keep

}  // namespace

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
  if (was_stored) co_return no_session(id);  // the result was removed since
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
  ResultAccount account = parts_.results.account_of(result.user);
  auto job = [directory = parts_.results.directory(), &measurement, account = std::move(account),
              result = std::move(result)](CodeNaming& naming) {
    Result<StoredResult> stored = write_result(
        directory, result, [&](ResultWriter& writer) { return measurement(naming, writer); },
        account);
    if (stored || result.is_dump) {
      const PriorityOfIoThread priority;  // the io thread allocated the samples
      measurement = nullptr;
    }
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
    const auto now = steady_clock::now();
    if (now - names_trimmed_at_ < kTrimInterval) continue;
    names_trimmed_at_ = now;
    spawn(parts_.io, parts_.workers.trim_names());
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
  const auto is_over = [oldest](const Session& session) {
    const bool is_kept_shortly = session.has_failed || !session.recording->owner().privileged;
    const auto ended = session.recording->ended();
    return is_kept_shortly && ended && *ended < oldest && !session.is_being_stored;
  };
  const std::map<std::string, SessionPtr> sessions = sessions_;
  for (const auto& [id, session] : sessions) {
    if (!is_over(*session)) continue;
    sessions_.erase(id);
    spawn(parts_.io, drop(session));
  }
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

Result<void> Sessions::discard(const SessionPtr& session) {
  const std::string id = session->recording->id();
  if (session->recording->is_running() || !session->was_tried) return no_session(id);
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

}  // namespace profd
