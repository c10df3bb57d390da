// One session that records an app's calls: who asked for what, and how far it is. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/xray/live_child.h"
#include "daemon/service/caller.h"
#include "daemon/xray/target.h"
#include "daemon/xray/writer.h"
#include "formats/api/control_api.h"

namespace profd {

enum class XrayState : std::uint8_t {
  kAttaching,  // the app has not answered yet
  kRunning,
  kFinishing,  // the app unpatches, and the rest is read
  kEnded,      // with a result, or an error
};

struct XraySession {
  // Setting a time cancels who waits, so `changed` gets one once, which never comes.
  XraySession(boost::asio::io_context& io, xray::LiveChild&& process)
      : follower(std::move(process)),
        news(io),
        duration(io),
        limit(io),
        changed(io, std::chrono::steady_clock::time_point::max()) {}

  [[nodiscard]] bool is_running() const {
    return state == XrayState::kAttaching || state == XrayState::kRunning;
  }
  void renew_lease();

  std::string id;
  Caller owner;
  StartRequest request;
  XrayTarget target;
  std::uint64_t memory_bytes = 0;  // that it may take
  std::chrono::system_clock::time_point started;
  std::chrono::steady_clock::time_point started_steady;
  std::chrono::steady_clock::time_point ended_steady;
  std::chrono::steady_clock::time_point lease_end = std::chrono::steady_clock::time_point::max();

  XrayState state = XrayState::kAttaching;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  xray::DetachReason end{};    // why the app takes part no more
  UniqueFd result;             // kEnded
  std::optional<Error> error;  // kEnded without a result
  // Of an app without a connection, for which only its program can be looked at.
  std::optional<Error> has_not_come;
  UniqueFd shown;  // what a dump waits for
  bool is_dumping = false;
  unsigned dumps = 0;
  bool with_worker = false;

  xray::LiveChild follower;
  boost::asio::posix::stream_descriptor news;  // the follower's
  boost::asio::steady_timer duration;          // ends it
  boost::asio::steady_timer limit;             // for the follower's next step
  boost::asio::steady_timer changed;           // cancelled whenever anything above has changed
};

// As it is listed.
[[nodiscard]] SessionInfo info_of(const XraySession& session);

// For the worker, with a descriptor of its own.
[[nodiscard]] XrayMeasurement measurement_of(const XraySession& session, const UniqueFd& result);

}  // namespace profd
