// What a client asks a new session to be: POST /v1/sessions of the control socket (docs/api.md),
// and which processes any request is about.
//
// Parsing checks types, ranges and counts, so that nobody behind it sees a half-valid request.
// Members that it does not know are refused by name.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct TargetRequest {
  bool all = false;
  std::vector<std::uint32_t> pids;
  std::vector<std::string> comms;
  std::vector<std::uint32_t> uids;
  std::vector<std::string> cgroups;
  std::vector<std::string> units;       // full names: "nginx.service"
  std::vector<std::string> containers;  // ids, beginnings of ids, names

  [[nodiscard]] bool empty() const {
    return !all && pids.empty() && comms.empty() && uids.empty() && cgroups.empty() &&
           units.empty() && containers.empty();
  }
  friend bool operator==(const TargetRequest&, const TargetRequest&) = default;
};

// "all", or "pid 1234, comm nginx": for people.
[[nodiscard]] std::string describe(const TargetRequest& target);

struct StartRequest {
  TargetRequest target;
  bool children = true;
  bool from_exec = false;
  std::string event = "cpu";
  std::string functions{};         // of event "xray": a regular expression; empty: all
  std::uint64_t frequency_hz = 0;  // 0: not given
  std::uint64_t period = 0;        // 0: not given
  std::uint64_t duration_ms = 0;   // 0: until stopped
  std::uint64_t lease_ms = 0;      // ends when nobody has asked for it so long; 0: never

  friend bool operator==(const StartRequest&, const StartRequest&) = default;
};

[[nodiscard]] std::string to_json(const StartRequest& request);

// kMalformed: no JSON. kInvalidArgument: JSON that makes no sense as a request.
[[nodiscard]] Result<StartRequest> parse_start_request(std::string_view json);

}  // namespace profd
