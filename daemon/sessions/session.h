// One session as the daemon knows it: who asked for what, and where its samples are.
//
// While it runs, its samples are the aggregator's, under its slot. When it has ended they are held
// here until the worker has stored them. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "daemon/samples/snapshot.h"
#include "daemon/service/caller.h"
#include "formats/api/control_api.h"

namespace profd {

struct SessionCounts {
  std::uint64_t samples = 0;
  std::uint64_t lost = 0;
  bool targets_alive = true;
};

struct Session {
  // Setting a time cancels who waits, so `stored` gets one once, which never comes.
  explicit Session(boost::asio::io_context& io)
      : duration(io), stored(io, std::chrono::steady_clock::time_point::max()) {}

  // Somebody still wants it. Does nothing for a session without a lease.
  void renew_lease();

  std::string id;
  Caller owner;
  StartRequest request;
  EventSpec event;
  std::chrono::system_clock::time_point started;
  std::chrono::steady_clock::time_point started_steady;
  std::chrono::steady_clock::time_point ended_steady;
  std::chrono::steady_clock::time_point lease_end = std::chrono::steady_clock::time_point::max();

  bool running = true;
  SessionSlot slot = 0;                 // while running
  std::optional<SessionSnapshot> held;  // ended, and neither stored nor with the worker
  SessionCounts final_counts;           // once it has ended
  bool with_worker = false;
  std::uint64_t bytes_with_worker = 0;  // of its samples and of copies of them
  unsigned dumps = 0;
  unsigned dumps_with_worker = 0;

  boost::asio::steady_timer duration;  // ends it
  boost::asio::steady_timer stored;    // cancelled when the worker is through with it
};

// What the kernel side is to take for it: `processes` is the request's target with its units and
// containers as cgroups. Callers without rights get what they may read.
[[nodiscard]] Target target_of(const StartRequest& request, const TargetRequest& processes,
                               const Caller& owner);

[[nodiscard]] std::chrono::nanoseconds time_of(const Session& session);

// Without samples.
[[nodiscard]] SessionSnapshot snapshot_of(const Session& session);

// As it is listed, with the given counts.
[[nodiscard]] SessionInfo info_of(const Session& session, const SessionCounts& counts);

// Lost in the kernel side's counts and refused by the aggregator.
[[nodiscard]] std::uint64_t lost_of(const SlotLedger& ledger, std::uint64_t refused);

}  // namespace profd
