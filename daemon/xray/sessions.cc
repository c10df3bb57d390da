#include "daemon/xray/sessions.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "collectors/xray/detach_reason.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using std::chrono_literals::operator""s;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

// A symbol table of a million names takes seconds to choose from; an app may be stopped.
constexpr auto kAttachLimit = 20s;
constexpr auto kResultLimit = 30s;

Result<void> check(const StartRequest& request) {
  const TargetRequest& target = request.target;
  const bool is_one = target.pids.size() == 1 && !target.all && target.comms.empty() &&
                      target.uids.empty() && target.cgroups.empty() && target.units.empty() &&
                      target.containers.empty();
  if (!is_one || request.from_exec) {
    return fail(ErrorCode::kInvalidArgument, "event xray records one running process",
                "name it by --pid");
  }
  if (request.frequency_hz != 0 || request.period != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "event xray records every call: it has no frequency and no period");
  }
  return {};
}

// A follower asks it in vain.
UniqueFd ended_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return UniqueFd();
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

// The session's random id, which is eight hexadecimal digits, as a number that is not 0.
std::uint32_t number_of(const std::string& id) {
  const auto number = static_cast<std::uint32_t>(std::strtoul(id.c_str(), nullptr, 16));
  return std::max<std::uint32_t>(number, 1);
}

Error is_gone(const std::string& id) { return fail(ErrorCode::kNotFound, "no session " + id); }

}  // namespace

XraySessions::XraySessions(const Parts& parts, std::unique_ptr<XrayApps> apps)
    : parts_(parts), apps_(std::move(apps)) {}

Result<void> XraySessions::start(const Caller& caller, const StartRequest& request,
                                 const std::string& id) {
  if (auto sound = check(request); !sound) return sound;
  const auto memory_bytes = xray_memory_for(held_by(caller.uid), caller.privileged);
  if (!memory_bytes) return memory_bytes.error();
  const auto pid = static_cast<pid_t>(request.target.pids.front());
  for (const auto& [other, session] : sessions_) {
    if (session->target.pid != pid || session->state == XrayState::kEnded) continue;
    return fail(ErrorCode::kBusy, "session " + other + " records that process's calls already");
  }
  auto target = find_xray_target(pid, opener_);
  const auto connection = apps_->connection_of(pid);
  if (!target && !connection && target.error().code == ErrorCode::kIo) return connection.error();
  if (!target) return target.error();
  // A program that is not instrumented does not come either: its follower says which it is.
  const UniqueFd nobody = connection ? UniqueFd() : ended_connection();
  if (!connection && !nobody.valid()) return connection.error();
  auto follower =
      xray::LiveChild::start(target->program->fd.get(), connection ? *connection : nobody.get(),
                             number_of(id), request.functions, *memory_bytes);
  if (!follower) return follower.error();
  auto session = std::make_shared<XraySession>(parts_.io, std::move(*follower));
  session->id = id;
  if (!connection) session->has_not_come = connection.error();
  session->owner = caller;
  session->request = request;
  session->target = std::move(*target);
  session->memory_bytes = *memory_bytes;
  session->started = std::chrono::system_clock::now();
  session->started_steady = std::chrono::steady_clock::now();
  session->renew_lease();
  session->news.assign(::fcntl(session->follower.descriptor(), F_DUPFD_CLOEXEC, 0));
  sessions_.emplace(id, session);
  session->limit.expires_after(kAttachLimit);
  boost::asio::co_spawn(parts_.io, follow(session), boost::asio::detached);
  spdlog::info("session {} started by uid {}: calls of pid {}, {}", id, caller.uid, pid,
               log_text(request.functions.empty() ? "all functions" : request.functions));
  return {};
}

// A failed session holds nothing any more but its reason.
XrayHoldings XraySessions::held_by(uid_t uid) const {
  XrayHoldings held;
  for (const auto& [id, session] : sessions_) {
    if (session->error) continue;
    ++held.sessions;
    held.bytes += session->memory_bytes;
    if (!session->owner.privileged) ++held.unprivileged_sessions;
    if (session->owner.uid == uid) held.bytes_of_user += session->memory_bytes;
  }
  return held;
}

// Until the follower has said its last word.
boost::asio::awaitable<void> XraySessions::follow(SessionPtr session) {
  session->limit.async_wait([this, session](const boost::system::error_code& error) {
    if (!error) {
      fail_session(session, xray::DetachReason::kSilent,
                   fail(ErrorCode::kTimeout, "the app does not answer", "it may be stopped"));
    }
  });
  while (session->state != XrayState::kEnded) {
    const auto [error] =
        co_await session->news.async_wait(boost::asio::posix::stream_descriptor::wait_read, kTuple);
    if (error || session->state == XrayState::kEnded) break;
    if (auto news = session->follower.next_news()) take(session, std::move(*news));
  }
}

void XraySessions::take(const SessionPtr& session, xray::LiveNews news) {
  if (news.news == xray::News::kFailed) {
    return fail_session(session, news.end, std::move(news.error));
  }
  session->records = news.records;
  session->dropped = news.dropped;
  if (session->state == XrayState::kAttaching) {
    session->state = XrayState::kRunning;
    session->limit.cancel();
    if (session->request.duration_ms != 0) {
      session->duration.expires_after(std::chrono::milliseconds(session->request.duration_ms));
      session->duration.async_wait([this, session](const boost::system::error_code& error) {
        if (!error) finish_and_store(session);
      });
    }
  }
  if (news.news == xray::News::kAppIsOut) {
    note_end(session, news.end, news.error.message);
    finish_and_store(session);
  } else if (news.news == xray::News::kResult && session->state == XrayState::kFinishing) {
    session->result = std::move(news.result);
    end(session);
  } else if (news.news == xray::News::kResult) {
    session->shown = std::move(news.result);
    session->limit.cancel();
  }
  session->changed.cancel();
}

// Told once a session. An app that did not keep to the protocol is not privileged with its
// functions patched: it unpatches them when its connection ends, and may come again.
void XraySessions::note_end(const SessionPtr& session, xray::DetachReason end,
                            const std::string& why) {
  if (end == xray::DetachReason::kAsAsked || session->end != xray::DetachReason::kAsAsked) return;
  session->end = end;
  ++ended_[std::string(xray::name_of(end))];
  spdlog::warn("session {} ends, {}: {}", session->id, xray::name_of(end), log_text(why));
  const bool is_patched =
      end == xray::DetachReason::kFollowerDied || end == xray::DetachReason::kOutOfMemory;
  if (is_misconduct(end) || is_patched) apps_->disconnect(session->target.pid);
}

void XraySessions::fail_session(const SessionPtr& session, xray::DetachReason reason, Error error) {
  if (session->state == XrayState::kEnded) return;
  if (session->has_not_come && reason == xray::DetachReason::kGone) {
    error = *session->has_not_come;
  } else {
    note_end(session, reason, error.message);
    ++failed_;
  }
  session->error = std::move(error);
  end(session);
  session->changed.cancel();
}

void XraySessions::finish(const SessionPtr& session) {
  if (!session->is_running()) return;
  session->state = XrayState::kFinishing;
  session->ended_steady = std::chrono::steady_clock::now();
  session->duration.cancel();
  session->limit.expires_after(kResultLimit);
  session->limit.async_wait([this, session](const boost::system::error_code& error) {
    if (!error) {
      fail_session(session, xray::DetachReason::kFollowerDied,
                   fail(ErrorCode::kTimeout, "the app's calls don't come"));
    }
  });
  (void)session->follower.order(xray::Order::kFinish);  // else its end is news
}

void XraySessions::finish_and_store(const SessionPtr& session) {
  if (!session->is_running()) return;
  finish(session);
  boost::asio::co_spawn(parts_.io, store(session),
                        [session](const std::exception_ptr&, const Result<ResultInfo>& stored) {
                          if (!stored) {
                            spdlog::warn("session {} is not stored: {}", session->id,
                                         log_text(stored.error().message));
                          }
                        });
}

void XraySessions::end(const SessionPtr& session) {
  if (session->is_running()) session->ended_steady = std::chrono::steady_clock::now();
  session->state = XrayState::kEnded;
  session->limit.cancel();
  session->duration.cancel();
  boost::system::error_code ignored;
  session->news.close(ignored);
  ::kill(session->follower.process(), SIGKILL);  // all is told; our child still, since not reaped
  to_reap_.push_back(session->follower.process());
  reap();
}

void XraySessions::reap() {
  std::erase_if(to_reap_, [](pid_t process) { return ::waitpid(process, nullptr, WNOHANG) != 0; });
}

boost::asio::awaitable<Result<void>> XraySessions::under_way(std::string id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) co_return Result<void>();
  const SessionPtr session = found->second;
  while (session->state == XrayState::kAttaching) {
    co_await session->changed.async_wait(kTuple);
  }
  if (!session->error) co_return Result<void>();
  sessions_.erase(id);
  co_return *session->error;
}

const XraySession* XraySessions::find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::vector<const XraySession*> XraySessions::all() const {
  std::vector<const XraySession*> all;
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  return all;
}

void XraySessions::renew_lease(const std::string& id) {
  if (const auto found = sessions_.find(id); found != sessions_.end()) found->second->renew_lease();
}

std::size_t XraySessions::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [](const auto& entry) { return entry.second->state != XrayState::kEnded; }));
}

boost::asio::awaitable<Result<ResultInfo>> XraySessions::stop(std::string id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) co_return is_gone(id);
  const SessionPtr session = found->second;
  finish(session);
  Result<ResultInfo> stored = co_await store(session);
  if (session->error) sessions_.erase(id);  // it has been told
  co_return stored;
}

boost::asio::awaitable<Result<StoredResult>> XraySessions::write(XrayMeasurement measurement,
                                                                 StoredResult result) {
  auto work = [directory = parts_.store.directory(), measurement = std::move(measurement),
               result = std::move(result)](Parser& parser) {
    return write_result(directory, result, [&](ResultWriter& writer) {
      return write_xray(measurement, parser, writer);
    });
  };
  co_return co_await parts_.worker.run(std::move(work));
}

// Several may wait for the same session; the first one sends it to the worker.
boost::asio::awaitable<Result<ResultInfo>> XraySessions::store(SessionPtr session) {
  while (session->state != XrayState::kEnded || session->with_worker) {
    co_await session->changed.async_wait(kTuple);
  }
  if (const StoredResult* stored = parts_.store.find(session->id)) co_return stored->info;
  if (session->error) co_return *session->error;
  StoredResult result;
  result.session = info_of(*session);
  result.keep = session->owner.privileged ? 0s : kShortKeeping;
  result.info.result = session->id;
  session->with_worker = true;
  auto operation = write(measurement_of(*session, session->result), std::move(result));
  Result<StoredResult> written = co_await std::move(operation);
  session->with_worker = false;
  session->changed.cancel();
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  parts_.store.adopt(std::move(*written));
  sessions_.erase(session->id);
  co_return info;
}

boost::asio::awaitable<Result<ResultInfo>> XraySessions::dump(std::string id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) co_return is_gone(id);
  const SessionPtr session = found->second;
  while (session->is_dumping) {
    co_await session->changed.async_wait(kTuple);
  }
  if (session->state != XrayState::kRunning) {
    co_return fail(ErrorCode::kInvalidArgument, "session " + id + " has ended",
                   "profctl stop " + id + " fetches it");
  }
  session->is_dumping = true;
  (void)session->follower.order(xray::Order::kShow);
  while (!session->shown.valid() && session->state == XrayState::kRunning) {
    co_await session->changed.async_wait(kTuple);
  }
  const UniqueFd shown = std::move(session->shown);
  session->is_dumping = false;
  session->changed.cancel();
  if (!shown.valid()) co_return fail(ErrorCode::kUnavailable, "session " + id + " has just ended");
  StoredResult result;
  result.session = info_of(*session);
  result.is_dump = true;
  result.keep = kShortKeeping;
  result.info.result = id + "-dump-" + std::to_string(++session->dumps);
  auto operation = write(measurement_of(*session, shown), std::move(result));
  Result<StoredResult> written = co_await std::move(operation);
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  parts_.store.adopt(std::move(*written));
  co_return info;
}

void XraySessions::look_after() {
  reap();
  const auto now = std::chrono::steady_clock::now();
  const std::map<std::string, SessionPtr> sessions = sessions_;
  for (const auto& [id, session] : sessions) {
    if (session->is_running() && session->lease_end < now) finish_and_store(session);
    const bool is_old = session->error && session->ended_steady + kShortKeeping < now;
    if (is_old) sessions_.erase(id);
  }
}

boost::asio::awaitable<bool> XraySessions::shut_down() {
  bool all_stored = true;
  const std::map<std::string, SessionPtr> sessions = sessions_;
  for (const auto& [id, session] : sessions) finish(session);
  for (const auto& [id, session] : sessions) {
    const Result<ResultInfo> stored = co_await store(session);
    if (stored || session->error) continue;
    spdlog::error("session {} is lost: {}", id, log_text(stored.error().message));
    all_stored = false;
  }
  apps_->stop();
  co_return all_stored;
}

}  // namespace profd
