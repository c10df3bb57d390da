// What records for a session: the samples of processes, or the calls of an instrumented app.
//
// A Recorder starts the recordings of its events. A Recording takes data until it is stopped, and
// then gives them to the registry (sessions.h), which treats all kinds alike: ids, rights, limits,
// leases, durations, storing and dumps are its part. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "daemon/service/caller.h"
#include "formats/api/control_api.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

class CodeNaming;
class ResultWriter;

// The complete data of a recording, as the function that adds their profiles and images to `writer`
// without committing it. It is called and destroyed on the worker's thread.
using Measurement = std::function<Result<SessionSummary>(CodeNaming& naming, ResultWriter& writer)>;

// A part of the data, as the function that makes a profile.proto with names of them, gzip. It is
// called and destroyed on the worker's thread too.
using NamedPart = std::function<Result<std::string>(CodeNaming& naming)>;

// The session of a recording, its caller and what it records.
struct RecordingRequest {
  std::string id;  // of the session
  Caller owner;
  StartRequest start;
};

class Recording {
 public:
  explicit Recording(RecordingRequest request) : request_(std::move(request)) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;

  [[nodiscard]] const std::string& id() const { return request_.id; }
  [[nodiscard]] const Caller& owner() const { return request_.owner; }
  [[nodiscard]] const StartRequest& request() const { return request_.start; }

  // Whether it still takes data.
  [[nodiscard]] bool is_running() const { return !ended_; }
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> ended() const {
    return ended_;
  }
  [[nodiscard]] std::chrono::steady_clock::duration duration() const;

  // As `GET /v1/sessions` lists it.
  [[nodiscard]] SessionInfo describe() const;

  // Returns when the recording takes data. An error: it never will.
  [[nodiscard]] virtual boost::asio::awaitable<Result<void>> wait_until_begun();

  // Whether all its targets have ended, so that no more data can come.
  [[nodiscard]] virtual bool has_lost_its_targets() const = 0;

  // Takes no more data. Does nothing after the end.
  void stop();

  // Waits for the last data, after stop(). Called until it gives them; after an error there are
  // none.
  [[nodiscard]] virtual boost::asio::awaitable<Result<Measurement>> finish() = 0;

  // A copy of the data so far.
  [[nodiscard]] virtual boost::asio::awaitable<Result<Measurement>> copy() = 0;

  // Moves the data since the last take, or the start, out of the recording, which continues: no
  // gap is between two parts, and nothing is in both. One at a time. After an error, the data are
  // still there.
  [[nodiscard]] virtual boost::asio::awaitable<Result<NamedPart>> take();

  // The daemon's memory for the data; a copy takes as much.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;

  // Called when the data are on the disk and the measurement is destroyed, and now and then after a
  // take. The result, which may be empty, releases memory: it is called and destroyed on the
  // worker's thread, since that takes long.
  [[nodiscard]] virtual std::function<void()> on_stored() { return {}; }

  // Called when that memory is released.
  virtual void on_released() {}

 protected:
  // Stops the source of the data.
  virtual void end() = 0;

  // Fills in event, frequency_hz, period, samples, lost and targets_alive.
  virtual void describe(SessionInfo& info) const = 0;

  [[nodiscard]] std::chrono::system_clock::time_point started() const { return started_; }

 private:
  RecordingRequest request_;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> ended_;
};

// Starts the recordings of one kind.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  [[nodiscard]] virtual bool records(std::string_view event) const = 0;

  // Whether the request is valid for this recorder, as far as it alone shows that. Called before
  // prepare(), so that an invalid request costs nothing.
  [[nodiscard]] virtual Result<void> check(const StartRequest& request) const;

  // Awaited before start(), which returns at once: reads of the host what the latter needs.
  [[nodiscard]] virtual boost::asio::awaitable<void> prepare(TargetRequest target);

  // Whether the recordings take data only of processes to which their owner has the rights when
  // the data are taken. Otherwise the rights are checked once more right before start(): while
  // prepare() ran, a process may have ended and another user's may have got its pid.
  [[nodiscard]] virtual bool checks_rights() const { return false; }

  // The caller's rights to the target are checked already, and the request by check().
  [[nodiscard]] virtual Result<std::shared_ptr<Recording>> start(RecordingRequest request) = 0;

  virtual void every_second() {}
};

}  // namespace profd
