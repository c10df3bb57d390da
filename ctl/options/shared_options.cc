#include "ctl/options/shared_options.h"

#include <chrono>
#include <memory>
#include <utility>

#include "ctl/options/values.h"
#include "formats/base/errors.h"
#include "formats/base/time_text.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

Result<std::string> as_name(const std::string& name) {
  if (name.empty()) return invalid_argument("a name is empty");
  return name;
}

Result<std::string> parse_unit(const std::string& name) {
  if (name.empty()) return as_name(name);
  return full_unit_name(name);
}

// An option whose argument is a list: each part of it becomes a value.
template <class T>
Reader list_reader(std::vector<T>& out, Reader::Parse<T> parse) {
  return Reader(
      [&out, parse](const std::string& argument) -> Result<void> {
        const auto parts = split_list(argument);
        if (!parts) return parts.error();
        for (const std::string& part : *parts) {
          auto value = parse(part);
          if (!value) return value.error();
          out.push_back(std::move(*value));
        }
        return {};
      },
      true);
}

// Reads a time for a range. Times like "-10m" count from `now`.
Reader::Function set_time(std::uint64_t& out_ms, WallTime now) {
  return [&out_ms, now](const std::string& argument) -> Result<void> {
    const auto time = parse_time_text(argument, now);
    if (!time) return time.error();
    out_ms = static_cast<std::uint64_t>(time->time_since_epoch().count());
    return {};
  };
}

}  // namespace

void add_pids(OptionList& list, const std::string& help, std::vector<std::uint32_t>& pids) {
  const auto read = [&pids](const std::string& argument) -> Result<void> {
    const auto read_pids = parse_pids(argument);
    if (!read_pids) return read_pids.error();
    pids.insert(pids.end(), read_pids->begin(), read_pids->end());
    return {};
  };
  list.option("-p,--pid", "PID", help, Reader(read, true));
}

void add_owners(OptionList& list, TargetRequest& target) {
  list.heading("Target");
  list.option("-u,--unit", "UNIT", "Processes of a systemd unit; nginx means nginx.service",
              list_reader(target.units, parse_unit));
  list.option("-c,--container", "ID", "Processes of a container: its id or the start of its id",
              list_reader(target.containers, as_name));
  list.heading("Options");
}

void add_processes(OptionList& list, TargetRequest& target, const std::string& comm_names) {
  list.heading("Target");
  add_pids(list, "Processes by pid: 1234 or 1234,5678; repeatable", target.pids);
  list.option(comm_names, "NAME", "Processes with this command name: NAME or NAME,NAME; repeatable",
              list_reader(target.comms, as_name));
  list.option("-G,--cgroup", "PATH", "Processes in this cgroup (v2) or below it",
              {target.cgroups, parse_cgroup});
  list.option("--uid", "USER", "Processes of this user, by number or name",
              list_reader(target.uids, parse_user));
  add_owners(list, target);
  list.rule([&target] { return check_target(target); });
}

void add_target(OptionList& list, TargetRequest& target) {
  add_processes(list, target);
  list.heading("Target");
  list.flag("-a,--all", "Every process of the host", target.all);
  list.heading("Options");
}

void add_session_request(OptionList& list, StartRequest& request, bool& asks_for_stacks) {
  add_target(list, request.target);
  list.heading("Target");
  list.flag("--no-children", "Leave out the children of --pid", request.children, false);
  list.heading("Options");
  list.flag("-g", "As in perf; stacks are always recorded", asks_for_stacks);
  list.flag("--threads", "Label each sample with the name of its thread", request.threads);
  list.option("-e,--event", "EVENT",
              "What to sample: off-cpu, page-faults, ...; 'profctl events' lists them [cpu]",
              request.event);
  list.option("--functions", "REGEX", "With --event xray: which functions to record [all]",
              request.functions);
  list.option("-F,--freq", "HZ",
              "Samples per second on each CPU [99]; for non-time events use --period",
              {request.frequency_hz, parse_frequency});
  list.option("--period", "N",
              "Instead of --freq: sample every Nth event; of cpu and the other clocks, every N ns",
              {request.period, parse_period});
  list.rule([&list]() -> Result<void> {
    if (!list.given("--freq") || !list.given("--period")) return {};
    return invalid_argument("--freq and --period exclude each other", "leave out one of them");
  });
  list.option("-d,--duration", "TIME", "Stop after 500ms, 10s, 5m, 1h, ...",
              {request.duration_ms, parse_duration_ms});
}

void add_ask_runtime(OptionList& list, const TargetRequest& target, bool& ask_runtime) {
  list.flag("--ask-runtime",
            "Ask the JVMs of --pid (HotSpot 17 or later) for the symbols of their JIT code",
            ask_runtime);
  list.rule([&]() -> Result<void> {
    if (!ask_runtime || !target.pids.empty()) return {};
    return invalid_argument("--ask-runtime needs --pid", "name the processes to ask: --pid PID");
  });
}

void add_range(OptionList& list, TimeRange& range) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto set_since = set_time(range.since_ms, now);
  const auto set_last = [set_since](const std::string& span) -> Result<void> {
    const auto parsed = parse_time_span(span);
    return parsed ? set_since("-" + span) : parsed.error();
  };
  list.option("-S,--since", "TIME",
              "From this time: 14:05, \"2026-11-20 14:05\", yesterday, -10m, \"1h ago\", ...",
              Reader(set_since));
  list.option("-U,--until", "TIME", "Up to this time [now]", Reader(set_time(range.until_ms, now)));
  list.option("-l,--last", "SPAN",
              "Instead of --since and --until: the last 10m, \"1h 30min\", ...; 5 is 5 seconds",
              Reader(set_last));
  list.rule([&]() -> Result<void> {
    if (list.given("--last") && (list.given("--since") || list.given("--until"))) {
      return invalid_argument("--last excludes --since and --until", "leave out one of them");
    }
    if (range.since_ms < range.until_ms) return {};
    return invalid_argument("the time range " + fault_of_range(range),
                            "give a --since that is before --until");
  });
}

void add_history_event(OptionList& list, std::string& event) {
  list.option("-e,--event", "EVENT",
              "Of the history: cpu, or off-cpu, what threads waited for, if profd keeps it [cpu]",
              event);
  list.rule([&event] { return check_history_event(event); });
}

void add_output(OptionList& list, const std::string& by_default, Destination& destination) {
  const auto output = std::make_shared<std::string>();
  const auto format = std::make_shared<std::string>();
  list.option("-o,--output", "PATH",
              "Directory to write to, created if absent [" + by_default +
                  "], or a file: .pb.gz, .folded, .speedscope.json, - for standard output",
              Reader::path(*output));
  list.option("--format", "FORMAT",
              "pprof, folded, speedscope or dir, instead of the one that the extension says",
              *format);
  list.rule([output, format, &destination]() -> Result<void> {
    Result<Destination> made = make_destination(*output, *format);
    if (!made) return made.error();
    destination = std::move(*made);
    return {};
  });
}

void add_written_list(OptionList& list, WrittenList& written) {
  list.flag("-q,--quiet",
            "Print neither the written files nor the hottest functions; without -o, the directory",
            written.is_quiet);
  list.flag(written.all_option, "Print all written files, not the first 20", written.has_all);
  list.rule([&written]() -> Result<void> {
    if (!written.is_quiet || !written.has_all) return {};
    return invalid_argument("--quiet and " + written.all_option + " exclude each other",
                            "leave out one of them");
  });
}

}  // namespace profd
