// One recording of an app's calls.
//
// A process of its own, the follower (collectors/xray/follower.h), talks to the app and holds all
// data; here are the recording's state, its counts and its time limits. Whatever fails ends the
// recording, with an error that finish() gives. On the io thread.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/xray/live_child.h"
#include "daemon/base/coroutines.h"
#include "daemon/sessions/recording.h"
#include "daemon/storage/worker.h"
#include "daemon/xray/apps.h"
#include "daemon/xray/target.h"
#include "formats/api/session_summary.h"

namespace profd {

class XrayRecording final : public Recording, public std::enable_shared_from_this<XrayRecording> {
 public:
  // What all recordings share; outlives them.
  struct Shared {
    boost::asio::io_context& io;
    XrayApps& apps;
    Worker& starter;  // of followers: the start of a process waits for its exec
    std::uint64_t failed = 0;
    CountsByReason ended{};        // before a caller stopped them, by xray::DetachReason
    std::vector<pid_t> to_reap{};  // followers that were killed

    void reap();
  };

  struct Start {
    XrayTarget target;
    std::uint64_t memory_bytes = 0;  // that the follower may allocate
    // The app has no connection: the follower only examines its program.
    std::optional<Error> not_connected{};
  };

  XrayRecording(RecordingRequest request, Start start, Shared& shared);

  // Called once, on an object that a shared_ptr owns.
  void begin();

  [[nodiscard]] pid_t app() const { return start_.target.pid; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return start_.memory_bytes; }
  [[nodiscard]] bool has_failed() const { return error_.has_value(); }
  [[nodiscard]] bool has_finished() const { return state_ == State::kFinished; }

  boost::asio::awaitable<Result<void>> wait_until_begun() override;
  // When the app is gone the follower reports it.
  [[nodiscard]] bool has_lost_its_targets() const override { return false; }
  boost::asio::awaitable<Result<Measurement>> finish() override;
  boost::asio::awaitable<Result<Measurement>> copy() override;
  [[nodiscard]] std::uint64_t bytes() const override { return 0; }  // all are the follower's

 private:
  enum class State : std::uint8_t {
    kAttaching,  // there is no follower, or the app has not answered yet
    kRunning,
    kFinishing,  // the app unpatches its functions, and the follower reads the rest
    kFinished,   // with a result, or an error
  };

  void end() override;
  void describe(SessionInfo& info) const override;

  static boost::asio::awaitable<void> follow(std::shared_ptr<XrayRecording> self);
  boost::asio::awaitable<Result<void>> start_follower();
  void kill_follower();
  [[nodiscard]] std::uint32_t number() const;
  void handle(xray::LiveEvent event);
  void note_detach(xray::DetachReason reason, const std::string& why);
  void fail_within(std::chrono::seconds limit, xray::DetachReason reason, const Error& error);
  void fail(xray::DetachReason reason, Error error);
  void set_finished();
  [[nodiscard]] Measurement measurement_of(UniqueFd result) const;

  Shared& shared_;
  Start start_;
  std::optional<xray::LiveChild> follower_;  // none: it is being started

  State state_ = State::kAttaching;
  std::uint64_t records_ = 0;
  std::uint64_t dropped_ = 0;
  xray::DetachReason detached_{};  // why the app does not take part any more
  UniqueFd result_;                // kFinished
  std::optional<Error> error_;     // kFinished without a result
  UniqueFd copy_;                  // the follower's answer to a copy()
  bool is_copying_ = false;
  bool is_copy_ordered_ = false;  // and not answered yet

  boost::asio::posix::stream_descriptor events_;  // of the follower
  boost::asio::steady_timer limit_;               // of the follower's next answer
  AsyncCondition changed_;                        // any of the state above
};

}  // namespace profd
