#include "daemon/xray/recording.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include <stdlib.h>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/names/code_naming.h"
#include "daemon/xray/writer.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;
using std::chrono_literals::operator""s;

// The follower may take seconds to choose from a million symbols, and the app may be stopped.
constexpr auto kAttachLimit = 20s;
constexpr auto kResultLimit = 30s;

}  // namespace

void XrayRecording::Shared::reap() {
  std::erase_if(to_reap, [](pid_t process) { return ::waitpid(process, nullptr, WNOHANG) != 0; });
}

XrayRecording::XrayRecording(RecordingRequest request, Start start, Shared& shared)
    : Recording(std::move(request)),
      shared_(shared),
      start_(std::move(start)),
      events_(shared.io),
      limit_(shared.io),
      changed_(shared.io) {}

void XrayRecording::begin() {
  fail_within(kAttachLimit, xray::DetachReason::kSilent,
              profd::fail(ErrorCode::kTimeout, "the app does not answer", "it may be stopped"));
  spawn(shared_.io, follow(shared_from_this()));
}

// The session's id, which is eight hexadecimal digits, as a number that is not 0.
std::uint32_t XrayRecording::number() const {
  const auto number = static_cast<std::uint32_t>(::strtoul(id().c_str(), nullptr, 16));
  return std::max<std::uint32_t>(number, 1);
}

boost::asio::awaitable<Result<void>> XrayRecording::start_follower() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    co_return fail_errno("could not make a socket pair");
  }
  UniqueFd for_door(ends[0]);
  UniqueFd for_follower(ends[1]);
  auto start = [this, door = for_follower.get()] {
    return xray::LiveChild::start(start_.target.program->fd.get(), door, number(),
                                  request().functions, start_.memory_bytes);
  };
  auto operation = shared_.starter.run(std::move(start));
  auto follower = co_await std::move(operation);
  for_follower.reset();  // before the connection is sent, so that it is the follower's alone
  if (!follower) co_return follower.error();
  follower_.emplace(std::move(*follower));
  if (state_ == State::kFinished) {
    kill_follower();
    co_return Result<void>();
  }
  events_.assign(::fcntl(follower_->descriptor(), F_DUPFD_CLOEXEC, 0));
  // A program that is not instrumented does not connect: the follower, which gets no connection,
  // finds out, and its error says so.
  if (!start_.not_connected) {
    shared_.apps.pass_connection(start_.target.pid, std::move(for_door));
  }
  co_return Result<void>();
}

// Until the follower's last event.
boost::asio::awaitable<void> XrayRecording::follow(std::shared_ptr<XrayRecording> self) {
  const auto started = co_await self->start_follower();
  if (!started) self->fail(xray::DetachReason::kFollowerDied, started.error());
  if (self->state_ == State::kFinishing) (void)self->follower_->send(xray::Command::kFinish);
  while (self->state_ != State::kFinished) {
    const bool is_readable = co_await wait_readable(self->events_);
    if (!is_readable || self->state_ == State::kFinished) break;
    if (auto event = self->follower_->next_event()) self->handle(std::move(*event));
  }
}

void XrayRecording::handle(xray::LiveEvent event) {
  if (event.kind == xray::EventKind::kFailed) return fail(event.reason, std::move(event.error));
  records_ = event.records;
  dropped_ = event.dropped;
  if (state_ == State::kAttaching) {
    state_ = State::kRunning;
    limit_.cancel();
  }
  if (event.kind == xray::EventKind::kDetached) {
    note_detach(event.reason, event.error.message);
    stop();
  } else if (event.kind == xray::EventKind::kResult && std::exchange(is_copy_ordered_, false)) {
    copy_ = std::move(event.result);
  } else if (event.kind == xray::EventKind::kResult && state_ == State::kFinishing) {
    result_ = std::move(event.result);
    set_finished();
  }
  changed_.notify_all();
}

// Once a recording. An app that broke the protocol, or whose follower is gone, may not stay
// patched: it unpatches its functions when its connection ends, and may connect again.
void XrayRecording::note_detach(xray::DetachReason reason, const std::string& why) {
  using xray::DetachReason;
  if (reason == DetachReason::kAsAsked || detached_ != DetachReason::kAsAsked) return;
  detached_ = reason;
  ++shared_.ended[std::string(xray::name_of(reason))];
  log::warn("session {} ends, {}: {}", id(), xray::name_of(reason), log_text(why));
  const bool is_patched =
      reason == DetachReason::kFollowerDied || reason == DetachReason::kOutOfMemory;
  if (is_misconduct(reason) || is_patched) shared_.apps.disconnect(start_.target.pid);
}

void XrayRecording::fail_within(std::chrono::seconds limit, xray::DetachReason reason,
                                const Error& error) {
  limit_.expires_after(limit);
  limit_.async_wait(
      [self = shared_from_this(), reason, error](const boost::system::error_code& cancelled) {
        if (!cancelled) self->fail(reason, error);
      });
}

void XrayRecording::fail(xray::DetachReason reason, Error error) {
  if (state_ == State::kFinished) return;
  if (start_.not_connected && reason == xray::DetachReason::kGone) {
    error = *start_.not_connected;
  } else {
    note_detach(reason, error.message);
    ++shared_.failed;
  }
  error_ = std::move(error);
  set_finished();
}

void XrayRecording::end() {
  if (state_ == State::kFinished) return;
  state_ = State::kFinishing;
  fail_within(kResultLimit, xray::DetachReason::kFollowerDied,
              profd::fail(ErrorCode::kTimeout, "the follower gives no result"));
  // If it is gone, its end is the next event.
  if (follower_) (void)follower_->send(xray::Command::kFinish);
  changed_.notify_all();
}

void XrayRecording::set_finished() {
  state_ = State::kFinished;
  stop();
  limit_.cancel();
  boost::system::error_code ignored;
  events_.close(ignored);
  kill_follower();
  changed_.notify_all();
}

void XrayRecording::kill_follower() {
  if (!follower_) return;
  ::kill(follower_->process(), SIGKILL);  // not reaped yet, so the pid is still its own
  shared_.to_reap.push_back(follower_->process());
  follower_.reset();
  shared_.reap();
}

boost::asio::awaitable<Result<void>> XrayRecording::wait_until_begun() {
  while (state_ == State::kAttaching) {
    co_await changed_.wait();
  }
  if (error_) co_return *error_;
  co_return Result<void>();
}

boost::asio::awaitable<Result<Measurement>> XrayRecording::finish() {
  while (state_ != State::kFinished) {
    co_await changed_.wait();
  }
  if (error_) co_return *error_;
  co_return measurement_of(std::move(result_));
}

// One at a time. The follower answers its orders one after the other, so a result that comes while
// one is ordered is the copy.
boost::asio::awaitable<Result<Measurement>> XrayRecording::copy() {
  while (is_copying_ || state_ == State::kAttaching) {
    co_await changed_.wait();
  }
  is_copying_ = true;
  is_copy_ordered_ = state_ == State::kRunning && follower_->send(xray::Command::kShow);
  while (is_copy_ordered_ && state_ != State::kFinished) {
    co_await changed_.wait();
  }
  is_copying_ = false;
  changed_.notify_all();
  if (copy_.valid()) co_return measurement_of(std::move(copy_));
  co_return profd::fail(ErrorCode::kUnavailable, "session " + id() + " has just ended");
}

Measurement XrayRecording::measurement_of(UniqueFd result) const {
  const auto calls =
      std::make_shared<const XrayMeasurement>(XrayMeasurement{.session = id(),
                                                              .started = started(),
                                                              .lasted = duration(),
                                                              .target = start_.target,
                                                              .privileged = owner().privileged,
                                                              .end = detached_,
                                                              .result = std::move(result)});
  return [calls](CodeNaming& naming, ResultWriter& writer) {
    return write_xray(*calls, naming, writer);
  };
}

void XrayRecording::describe(SessionInfo& info) const {
  info.event = request().event;
  info.period = 1;
  info.samples = records_;
  info.lost = dropped_;
  info.targets_alive = detached_ == xray::DetachReason::kAsAsked && !error_;
}

}  // namespace profd
