// The target of a request, which names the processes that it is about, and the request for a new
// session: POST /v1/sessions of the control socket (docs/api.md).
//
// Parsing checks types, ranges and counts, so that no later code sees a half-valid request. A
// member that is not known is an error that names it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "formats/base/result.h"

namespace profd {

struct TargetRequest {
  bool all = false;
  std::vector<std::uint32_t> pids;
  std::vector<std::string> comms;
  std::vector<std::uint32_t> uids;
  std::vector<std::string> cgroups;
  std::vector<std::string> units;       // full names: "nginx.service"
  std::vector<std::string> containers;  // ids, starts of ids, names

  [[nodiscard]] bool empty() const {
    return !all && pids.empty() && comms.empty() && uids.empty() && cgroups.empty() &&
           units.empty() && containers.empty();
  }
  friend bool operator==(const TargetRequest&, const TargetRequest&) = default;
};

// "all", or "pid 1234, comm nginx": for people.
[[nodiscard]] std::string describe(const TargetRequest& target);

[[nodiscard]] boost::json::value json_of(const TargetRequest& target);
// Completes the names of units, and drops terms that are given twice.
[[nodiscard]] Result<void> read_json(const boost::json::value& value, TargetRequest& out);

// Checks the form of each term and their counts: kInvalidArgument. An empty target is valid.
[[nodiscard]] Result<void> check_target(const TargetRequest& target);

struct StartRequest {
  TargetRequest target;
  bool children = true;
  bool from_exec = false;
  bool threads = false;  // distinguish the threads of a process
  std::string event = "cpu";
  std::string functions{};         // for event "xray": a regular expression; empty: all
  std::uint64_t frequency_hz = 0;  // 0: not given
  std::uint64_t period = 0;        // 0: not given
  std::uint64_t duration_ms = 0;   // 0: until a client stops the session
  std::uint64_t lease_ms = 0;      // the session ends after this time without a request; 0: none

  friend bool operator==(const StartRequest&, const StartRequest&) = default;
};

[[nodiscard]] std::string to_json(const StartRequest& request);

// kMalformed: no JSON. kInvalidArgument: JSON that is no valid request.
[[nodiscard]] Result<StartRequest> parse_start_request(std::string_view json);

}  // namespace profd
