#include "daemon/sessions/recording.h"

#include "formats/base/time_text.h"

namespace profd {

std::chrono::steady_clock::duration Recording::duration() const {
  return ended_.value_or(std::chrono::steady_clock::now()) - begin_;
}

SessionInfo Recording::describe() const {
  SessionInfo info;
  info.session = request_.id;
  info.state = is_running() ? "running" : "ended";
  info.target = request_.start.target;
  info.started = utc_text(started_);
  info.seconds = std::chrono::duration<double>(duration()).count();
  info.uid = request_.owner.uid;
  describe(info);
  return info;
}

boost::asio::awaitable<Result<void>> Recording::wait_until_begun() { co_return Result<void>(); }

boost::asio::awaitable<Result<NamedPart>> Recording::take() {
  co_return fail(ErrorCode::kUnsupported, "samples of session " + id() + " cannot be taken",
                 "profctl dump " + id() + " copies what it has so far");
}

Result<void> Recorder::check(const StartRequest& /*request*/) const { return {}; }

boost::asio::awaitable<void> Recorder::prepare(TargetRequest /*target*/) { co_return; }

void Recording::stop() {
  if (ended_) return;
  ended_ = std::chrono::steady_clock::now();
  end();
}

}  // namespace profd
