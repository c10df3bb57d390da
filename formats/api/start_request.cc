#include "formats/api/start_request.h"

#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "formats/base/errors.h"
#include "formats/base/json_members.h"
#include "formats/base/utf8_text.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

constexpr std::size_t kMaxRequestDepth = 4;
constexpr std::size_t kMaxCommBytes = 15;  // the kernel keeps no more of a name
constexpr std::size_t kMaxEventBytes = 128;
constexpr std::size_t kMaxFunctionsBytes = 1024;
constexpr std::uint64_t kMaxTimeMs = 366ULL * 24 * 60 * 60 * 1000;
// Every process that starts is compared with each term of a target.
constexpr std::size_t kMaxPids = 256;
constexpr std::size_t kMaxComms = 64;
constexpr std::size_t kMaxUids = 64;
constexpr std::size_t kMaxCgroups = 8;
constexpr std::size_t kMaxNames = 8;  // of units, and of containers
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxShownBytes = 60;  // of an invalid value

std::string quoted(const std::string& value) {
  return "'" + valid_utf8(value, kMaxShownBytes) + "'";
}

Result<void> check_pid(std::uint32_t pid) {
  constexpr std::uint32_t kMaxPid = std::numeric_limits<std::int32_t>::max();
  if (pid != 0 && pid <= kMaxPid) return {};
  return invalid_argument("invalid pid " + std::to_string(pid));
}

Result<void> check_comm(const std::string& comm) {
  if (comm.empty()) return invalid_argument("a command name is empty");
  if (comm.find('\0') != std::string::npos) return invalid_argument("a command name has a NUL");
  if (comm.size() <= kMaxCommBytes) return {};
  return invalid_argument(
      "command name " + quoted(comm) + " is longer than the 15 bytes that the kernel keeps",
      "give '" + comm.substr(0, kMaxCommBytes) + "'");
}

Result<void> check_uid(std::uint32_t uid) {
  constexpr std::uint32_t kNoUser = std::numeric_limits<std::uint32_t>::max();  // (uid_t)-1
  if (uid != kNoUser) return {};
  return invalid_argument("invalid uid " + std::to_string(uid));
}

Result<void> check_cgroup(const std::string& path) {
  const bool climbs = (path + "/").find("/../") != std::string::npos;
  if (path.starts_with('/') && !climbs && path.find('\0') == std::string::npos) return {};
  return invalid_argument("invalid cgroup path " + quoted(path),
                          "give the path below the cgroup v2 mount, for example /system.slice");
}

// A unit or a container has the name of one cgroup, which is one component of a path.
Result<void> check_name(const std::string& kind, const std::string& name) {
  const bool is_component = !name.empty() && name.size() <= kMaxNameBytes && name != "." &&
                            name != ".." &&
                            name.find_first_of(std::string_view("/\0", 2)) == name.npos;
  if (is_component) return {};
  return invalid_argument("invalid " + kind + " name " + quoted(name));
}

template <class T, class Check>
Result<void> check_terms(const std::vector<T>& terms, const char* kind, std::size_t max,
                         const Check& check) {
  if (terms.size() > max) {
    return invalid_argument("a target may have " + std::to_string(max) + " " + kind + ", not " +
                                std::to_string(terms.size()),
                            "start several sessions, or one of all processes");
  }
  for (const T& term : terms) {
    if (Result<void> checked = check(term); !checked) return checked;
  }
  return {};
}

Result<void> check_request(const StartRequest& request) {
  if (request.target.empty()) {
    return invalid_argument("no target is given", "name a process, or all of them");
  }
  if (auto checked = check_target(request.target); !checked) return checked;
  if (request.from_exec && request.target.pids.empty()) {
    return invalid_argument("from_exec needs pids");
  }
  if (request.event.empty()) return invalid_argument("the event name is empty");
  if (request.event.size() > kMaxEventBytes) {
    return invalid_argument("the event name is over 128 bytes");
  }
  if (!request.functions.empty() && request.event != "xray") {
    return invalid_argument("functions can be chosen only for the event xray");
  }
  if (request.threads && request.event == "xray") {
    return invalid_argument("threads can't be distinguished for the event xray",
                            "its records have the thread of each call: profctl convert");
  }
  if (request.functions.size() > kMaxFunctionsBytes) {
    return invalid_argument("the regular expression for functions is over 1024 bytes");
  }
  if (request.frequency_hz != 0 && request.period != 0) {
    return invalid_argument("frequency and period exclude each other", "leave out one of them");
  }
  if (request.duration_ms > kMaxTimeMs) return invalid_argument("duration_ms is over 366 days");
  if (request.lease_ms > kMaxTimeMs) return invalid_argument("lease_ms is over 366 days");
  return {};
}

// The first of equal terms stays.
template <class T>
void drop_duplicates(std::vector<T>& terms) {
  std::set<T> seen;
  std::erase_if(terms, [&seen](const T& term) { return !seen.insert(term).second; });
}

// Calls `visit` with the name and the terms of each list.
template <Is<TargetRequest> Target, class Visit>
void for_each_list(Target& target, const Visit& visit) {
  visit("pids", target.pids);
  visit("comms", target.comms);
  visit("uids", target.uids);
  visit("cgroups", target.cgroups);
  visit("units", target.units);
  visit("containers", target.containers);
}

bool describes_some(TargetRequest target) {
  target.all = false;
  return !target.empty();
}

}  // namespace

Result<void> check_target(const TargetRequest& target) {
  const auto unit = [](const std::string& name) { return check_name("unit", name); };
  const auto container = [](const std::string& name) { return check_name("container", name); };
  if (target.all && describes_some(target)) {
    return invalid_argument("a target of all processes excludes every other target",
                            "leave out one of them");
  }
  auto checked = check_terms(target.pids, "pids", kMaxPids, check_pid);
  if (checked) checked = check_terms(target.comms, "comms", kMaxComms, check_comm);
  if (checked) checked = check_terms(target.uids, "uids", kMaxUids, check_uid);
  if (checked) checked = check_terms(target.cgroups, "cgroups", kMaxCgroups, check_cgroup);
  if (checked) checked = check_terms(target.units, "units", kMaxNames, unit);
  if (checked) checked = check_terms(target.containers, "containers", kMaxNames, container);
  return checked;
}

void members(auto& fields, Is<TargetRequest> auto& target) {
  fields.if_set("all", target.all).no_others();
  for_each_list(target, [&](const char* name, auto& terms) { fields.if_set(name, terms); });
}

boost::json::value json_of(const TargetRequest& target) { return write_members(target); }

Result<void> read_json(const boost::json::value& value, TargetRequest& out) {
  auto read = read_members(value, out);
  for (std::string& unit : out.units) unit = full_unit_name(unit);
  for_each_list(out, [](const char* /*name*/, auto& terms) { drop_duplicates(terms); });
  return read;
}

void members(auto& fields, Is<StartRequest> auto& request) {
  fields.required("target", request.target)
      .optional("children", request.children)
      .optional("from_exec", request.from_exec)
      .if_set("threads", request.threads)
      .optional("event", request.event)
      .if_set("functions", request.functions)
      .if_positive("frequency", request.frequency_hz)
      .if_positive("period", request.period)
      .optional("duration_ms", request.duration_ms)
      .if_set("lease_ms", request.lease_ms)
      .no_others();
}

std::string describe(const TargetRequest& target) {
  if (target.all) return "all";
  std::ostringstream text;
  const char* between = "";
  for_each_list(target, [&](std::string_view name, const auto& terms) {
    const std::string_view noun = name.substr(0, name.size() - 1);
    for (const auto& term : terms) text << std::exchange(between, ", ") << noun << " " << term;
  });
  return text.str();
}

std::string to_json(const StartRequest& request) { return json_text(json_of(request)); }

Result<StartRequest> parse_start_request(std::string_view text) {
  auto request = parse_request<StartRequest>(text, kMaxRequestDepth);
  if (!request) return request;
  if (auto checked = check_request(*request); !checked) return checked.error();
  return request;
}

}  // namespace profd
