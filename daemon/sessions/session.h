// A session that runs, or whose data are not stored yet. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/sessions/sessions.h"

namespace profd {

[[nodiscard]] Error no_session(const std::string& id);

struct Sessions::Session {
  Session(boost::asio::io_context& io, std::shared_ptr<Recording> started)
      : recording(std::move(started)), duration(io), stored(io) {
    renew_lease();
  }

  void renew_lease() {
    if (const auto lease_ms = recording->request().lease_ms; lease_ms != 0) {
      lease_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(lease_ms);
    }
  }

  std::shared_ptr<Recording> recording;
  std::chrono::steady_clock::time_point lease_end = std::chrono::steady_clock::time_point::max();
  boost::asio::steady_timer duration;  // ends the session when it expires
  bool is_being_taken = false;
  NamedPart part;                // that was taken, and could not be encoded
  std::uint64_t part_bytes = 0;  // of the part that is being encoded
  std::chrono::steady_clock::time_point part_released_at{};
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

}  // namespace profd
