#include "formats/api/start_request.h"

#include <limits>
#include <set>
#include <utility>

#include "formats/api/start_request_json.h"
#include "formats/base/json_fields.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxRequestDepth = 4;
constexpr std::size_t kMaxCommBytes = 15;  // the kernel keeps no more of a name
constexpr std::size_t kMaxEventBytes = 128;
constexpr std::size_t kMaxFunctionsBytes = 1024;
constexpr std::uint64_t kMaxTimeMs = 366ULL * 24 * 60 * 60 * 1000;
// Each of a target's terms is looked at for every process that starts.
constexpr std::size_t kMaxPids = 256;
constexpr std::size_t kMaxComms = 64;
constexpr std::size_t kMaxUids = 64;
constexpr std::size_t kMaxCgroups = 8;
constexpr std::size_t kMaxNames = 8;  // of units, and of containers
constexpr std::size_t kMaxNameBytes = 255;

Error invalid(std::string message, std::string hint = {}) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

Result<void> check_comm(const std::string& comm) {
  if (comm.empty()) return invalid("a command name is empty");
  if (comm.size() <= kMaxCommBytes) return {};
  return invalid(
      "the command name \"" + comm + "\" is longer than the 15 bytes that the kernel keeps",
      "give \"" + comm.substr(0, kMaxCommBytes) + "\"");
}

Result<void> check_cgroup(const std::string& path) {
  const bool climbs = (path + "/").find("/../") != std::string::npos;
  if (path.starts_with('/') && !climbs && path.find('\0') == std::string::npos) return {};
  return invalid("\"" + path + "\" is no cgroup path",
                 "give it as below the cgroup v2 mount, for example /system.slice");
}

// A name of one cgroup, so no path.
Result<void> check_name(const std::string& name, const std::string& what) {
  const bool is_one = !name.empty() && name.size() <= kMaxNameBytes && name != "." &&
                      name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
  if (is_one) return {};
  return invalid("\"" + name + "\" names no " + what);
}

Result<void> check_names(const std::vector<std::string>& names, const std::string& what) {
  for (const std::string& name : names) {
    if (auto checked = check_name(name, what); !checked) return checked;
  }
  return {};
}

// Each stays where it first stood.
template <class T>
void fold_duplicates(std::vector<T>& terms) {
  std::set<T> seen;
  std::erase_if(terms, [&seen](const T& term) { return !seen.insert(term).second; });
}

void fold_duplicates(TargetRequest& target) {
  fold_duplicates(target.pids);
  fold_duplicates(target.comms);
  fold_duplicates(target.uids);
  fold_duplicates(target.cgroups);
  fold_duplicates(target.units);
  fold_duplicates(target.containers);
}

Result<void> check_count(std::size_t count, std::size_t limit, const std::string& what) {
  if (count <= limit) return {};
  return invalid(
      "a target may have " + std::to_string(limit) + " " + what + ", not " + std::to_string(count),
      "start several sessions, or one of all processes");
}

Result<void> check_counts(const TargetRequest& target) {
  if (auto checked = check_count(target.pids.size(), kMaxPids, "pids"); !checked) return checked;
  if (auto checked = check_count(target.comms.size(), kMaxComms, "comms"); !checked) return checked;
  if (auto checked = check_count(target.uids.size(), kMaxUids, "uids"); !checked) return checked;
  if (auto checked = check_count(target.units.size(), kMaxNames, "units"); !checked) return checked;
  if (auto checked = check_count(target.containers.size(), kMaxNames, "containers"); !checked) {
    return checked;
  }
  return check_count(target.cgroups.size(), kMaxCgroups, "cgroups");
}

}  // namespace

Result<void> check_target(const TargetRequest& target) {
  constexpr std::uint32_t kMaxPid = std::numeric_limits<std::int32_t>::max();
  if (auto checked = check_counts(target); !checked) return checked;
  for (const std::uint32_t pid : target.pids) {
    if (pid == 0 || pid > kMaxPid) return invalid(std::to_string(pid) + " is no pid");
  }
  for (const std::string& comm : target.comms) {
    if (auto checked = check_comm(comm); !checked) return checked;
  }
  for (const std::string& path : target.cgroups) {
    if (auto checked = check_cgroup(path); !checked) return checked;
  }
  if (auto checked = check_names(target.units, "unit"); !checked) return checked;
  return check_names(target.containers, "container");
}

namespace {

Result<void> check_request(const StartRequest& request) {
  if (request.target.empty())
    return invalid("no target is given", "name a process, or all of them");
  if (auto checked = check_target(request.target); !checked) return checked;
  if (request.from_exec && request.target.pids.empty()) return invalid("from_exec needs pids");
  if (request.event.empty()) return invalid("the event's name is empty");
  if (request.event.size() > kMaxEventBytes) return invalid("the event's name is over 128 bytes");
  if (!request.functions.empty() && request.event != "xray") {
    return invalid("functions can be chosen for the event xray alone");
  }
  if (request.functions.size() > kMaxFunctionsBytes) {
    return invalid("the functions' expression is over 1024 bytes");
  }
  if (request.frequency_hz != 0 && request.period != 0) {
    return invalid("frequency and period exclude each other");
  }
  if (request.duration_ms > kMaxTimeMs) return invalid("duration_ms is over 366 days");
  if (request.lease_ms > kMaxTimeMs) return invalid("lease_ms is over 366 days");
  return {};
}

// A number that a request may leave out, but not give as 0, which stands for "not given" in
// StartRequest.
struct PositiveNumber {
  std::uint64_t& out;
};

Result<void> read_json(const json::value& value, PositiveNumber& number) {
  if (auto read = profd::read_json(value, number.out); !read) return read;
  if (number.out == 0) return json_expected("a number above 0");
  return {};
}

}  // namespace

json::value json_of(const TargetRequest& target) {
  json::object object;
  if (target.all) object["all"] = true;
  if (!target.pids.empty()) object["pids"] = json::array(target.pids.begin(), target.pids.end());
  if (!target.comms.empty())
    object["comms"] = json::array(target.comms.begin(), target.comms.end());
  if (!target.uids.empty()) object["uids"] = json::array(target.uids.begin(), target.uids.end());
  if (!target.cgroups.empty()) {
    object["cgroups"] = json::array(target.cgroups.begin(), target.cgroups.end());
  }
  if (!target.units.empty()) {
    object["units"] = json::array(target.units.begin(), target.units.end());
  }
  if (!target.containers.empty()) {
    object["containers"] = json::array(target.containers.begin(), target.containers.end());
  }
  return object;
}

// The readers are found by their argument's type, hence not in the unnamed namespace.

Result<void> read_json(const json::value& value, TargetRequest& out) {
  auto read = JsonFields(value)
                  .optional("all", out.all)
                  .optional("pids", out.pids)
                  .optional("comms", out.comms)
                  .optional("uids", out.uids)
                  .optional("cgroups", out.cgroups)
                  .optional("units", out.units)
                  .optional("containers", out.containers)
                  .finish_strict();
  for (std::string& unit : out.units) unit = full_unit_name(unit);
  fold_duplicates(out);
  return read;
}

Result<void> read_json(const json::value& value, StartRequest& out) {
  PositiveNumber frequency{out.frequency_hz};
  PositiveNumber period{out.period};
  return JsonFields(value)
      .required("target", out.target)
      .optional("children", out.children)
      .optional("from_exec", out.from_exec)
      .optional("event", out.event)
      .optional("functions", out.functions)
      .optional("frequency", frequency)
      .optional("period", period)
      .optional("duration_ms", out.duration_ms)
      .optional("lease_ms", out.lease_ms)
      .finish_strict();
}

std::string describe(const TargetRequest& target) {
  if (target.all) return "all";
  std::string text;
  const auto add = [&text](std::string_view kind, std::string_view name) {
    text.append(text.empty() ? "" : ", ").append(kind).append(" ").append(name);
  };
  for (const std::uint32_t pid : target.pids) add("pid", std::to_string(pid));
  for (const std::string& comm : target.comms) add("comm", comm);
  for (const std::uint32_t uid : target.uids) add("uid", std::to_string(uid));
  for (const std::string& cgroup : target.cgroups) add("cgroup", cgroup);
  for (const std::string& unit : target.units) add("unit", unit);
  for (const std::string& container : target.containers) add("container", container);
  return text;
}

std::string to_json(const StartRequest& request) {
  json::object object{{"target", json_of(request.target)},
                      {"children", request.children},
                      {"from_exec", request.from_exec},
                      {"event", request.event}};
  if (!request.functions.empty()) object["functions"] = request.functions;
  if (request.frequency_hz != 0) object["frequency"] = request.frequency_hz;
  if (request.period != 0) object["period"] = request.period;
  object["duration_ms"] = request.duration_ms;
  if (request.lease_ms != 0) object["lease_ms"] = request.lease_ms;
  return json_text(object);
}

Result<StartRequest> parse_start_request(std::string_view text) {
  const auto value = parse_json(text, kMaxRequestDepth);
  if (!value) return value.error();
  StartRequest request;
  if (auto read = read_json(*value, request); !read) return invalid(read.error().message);
  if (auto checked = check_request(request); !checked) return checked.error();
  return request;
}

}  // namespace profd
