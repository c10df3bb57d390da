#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/client/caller_rights.h"
#include "ctl/commands/hidden_processes.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/subcommand.h"
#include "ctl/output/columns.h"
#include "ctl/output/terminal.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return percent_text(100 * static_cast<double>(part) / static_cast<double>(whole));
}

// "Node.js 99.8 % named, 1234 functions in jit-812.dump": the share of the samples in JIT code that
// have a symbol, and the file with the symbols. Empty: there is no such code.
std::string jit_text(const ProcessShare& process) {
  if (!process.jit || process.jit->samples == 0) return {};
  const JitNames& jit = *process.jit;
  std::string text = (jit.runtime.empty() ? "unknown" : jit.runtime) + " " +
                     share_text(jit.named_samples, jit.samples) + " named";
  if (jit.file.empty()) return text;
  return text + ", " + std::to_string(jit.functions) + " functions in " + jit.file;
}

// "python 3.11 99.9 % named": the share of the samples with interpreted frames that have names for
// all of these; or "python 3.13.2 not read: free_threaded". Empty: there is no such code.
std::string interpreted_text(const ProcessShare& process) {
  if (!process.interpreted) return {};
  const InterpretedNames& names = *process.interpreted;
  if (names.samples == 0) {
    return names.refused.empty() ? std::string() : names.runtime + " not read: " + names.refused;
  }
  return (names.runtime.empty() ? "interpreter" : names.runtime) + " " +
         share_text(names.named_samples, names.samples) + " named";
}

std::string runtime_text(const ProcessShare& process) {
  const std::string interpreted = interpreted_text(process);
  const std::string jit = jit_text(process);
  if (interpreted.empty() && jit.empty()) return "-";
  const bool has_both = !interpreted.empty() && !jit.empty();
  return interpreted + (has_both ? "; " : "") + jit;
}

constexpr std::size_t kContainerChars = 12;  // as docker shows ids

std::vector<ColumnHead> heads_of_ps() {
  return {{.title = "CPU"},
          {.title = "PID"},
          {.title = "COMMAND", .kind = ColumnKind::kName, .keeps_start = true},
          {.title = "UNIT", .kind = ColumnKind::kName, .keeps_start = true},
          {.title = "CONTAINER", .kind = ColumnKind::kOptional, .keeps_start = true},
          {.title = "SAMPLES", .is_optional = true},
          {.title = "COMPLETE", .is_optional = true},
          {.title = "RUNTIME", .kind = ColumnKind::kOptional, .keeps_start = true}};
}

std::vector<TableText> row_of(const ProcessShare& process) {
  return {{cpu_text(process.cpu_percent)},
          {std::to_string(process.pid)},
          {process.comm},
          {process.unit.value_or("-")},
          {process.container.value_or("-").substr(0, kContainerChars)},
          {std::to_string(process.samples)},
          {share_text(process.complete_samples, process.user_samples)},
          {runtime_text(process)}};
}

// The names of its processes, the ones that used most first: "cc1plus, as, ..."
std::string names_of(std::span<const ProcessShare* const> processes) {
  constexpr std::size_t kMaxNames = 2;
  std::vector<std::string_view> names;
  for (const ProcessShare* process : processes) {
    if (std::ranges::find(names, process->comm) == names.end()) names.push_back(process->comm);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text.append(i == 0 ? "" : ", ").append(names[i]);
  }
  return names.size() > kMaxNames ? text + ", ..." : text;
}

// One process stands in the row as it is; several are added up, as are those that one process had
// by exec under other names. The list of processes may end before those of a small group.
std::vector<TableText> row_of(const GroupShare& group,
                              std::span<const ProcessShare* const> processes) {
  if (processes.size() == 1) return row_of(*processes.front());
  std::uint64_t user_samples = 0;
  std::uint64_t complete_samples = 0;
  for (const ProcessShare* process : processes) {
    user_samples += process->user_samples;
    complete_samples += process->complete_samples;
  }
  const bool has_pid = group.processes == 1 && !processes.empty();
  return {
      {cpu_text(group.cpu_percent)},
      {has_pid ? std::to_string(processes.front()->pid) : "x" + std::to_string(group.processes)},
      {processes.empty() ? group.name : names_of(processes)},
      {group.is_unit ? group.name : "-"},
      {"-"},
      {std::to_string(group.samples)},
      {share_text(complete_samples, user_samples)},
      {"-"}};
}

struct PsTable {
  FittingTable table = FittingTable(heads_of_ps());
  std::size_t left_out = 0;
};

// The processes of each group, by its name.
struct Members {
  explicit Members(const WindowShares& window) {
    for (const GroupShare& group : window.groups) {
      if (group.is_unit) of_unit.try_emplace(group.name);
    }
    for (const ProcessShare& process : window.processes) {
      const auto unit = process.unit ? of_unit.find(*process.unit) : of_unit.end();
      (unit == of_unit.end() ? of_comm[process.comm] : unit->second).push_back(&process);
    }
  }

  [[nodiscard]] std::span<const ProcessShare* const> of(const GroupShare& group) const {
    const auto& groups = group.is_unit ? of_unit : of_comm;
    const auto found = groups.find(group.name);
    return found == groups.end() ? std::span<const ProcessShare* const>() : found->second;
  }

  std::map<std::string_view, std::vector<const ProcessShare*>> of_unit;
  std::map<std::string_view, std::vector<const ProcessShare*>> of_comm;
};

PsTable table_of_groups(const WindowShares& window, std::size_t limit) {
  PsTable ps;
  const Members members(window);
  const std::size_t shown = std::min(window.groups.size(), limit);
  for (const GroupShare& group : std::span(window.groups).first(shown)) {
    ps.table.add(row_of(group, members.of(group)));
  }
  ps.left_out = window.groups.size() - shown;
  return ps;
}

PsTable table_of_processes(const WindowShares& window, std::size_t limit) {
  PsTable ps;
  const std::size_t shown = std::min(window.processes.size(), limit);
  for (const ProcessShare& process : std::span(window.processes).first(shown)) {
    ps.table.add(row_of(process));
  }
  ps.left_out = window.processes.size() - shown;
  return ps;
}

// Windows with gaps between them cover less than the time from the first to the last.
std::string times_of(const WindowShares& window) {
  return local_text(window.started) + " to " + local_text(window.ended) + ", " +
         duration_text(std::round(window.seconds)) + " of samples";
}

std::string heading_of(const WindowShares& window, bool has_lost) {
  return times_of(window) + ": CPU " + cpu_text(window.cpu_percent) + ", " +
         std::to_string(window.samples) + " samples" +
         (has_lost ? ", " + std::to_string(sum_of(window.lost)) + " lost" : "");
}

// The last window may then be days old.
void remark_that_mode_is_off(Client& client, const Console& console) {
  const auto status = client.status();
  if (!status || status->continuous.enabled) return;
  console.err << "profctl: continuous mode is off: this is the last window of the time when it was "
                 "on\nhint: 'profctl doctor' shows how to switch it on\n";
}

class Ps final : public Subcommand {
 public:
  Ps() : Subcommand("ps", "Show who used the CPU in the last window, or in a time range") {}

  void add_options(OptionList& list) override {
    add_processes(list, request_.target, "--comm");
    add_range(list, request_.range);
    list.flag("--processes", "List each process, not units and commands", is_by_process_);
    list.option("-n,--limit", "N", "Show the N that used most [20; with --json all]",
                {limit_, parse_limit_not_name});
    list.flag("--all", "Show all", all_);
    list.rule([this, &list]() -> Result<void> {
      has_range_ = list.given("--since") || list.given("--until") || list.given("--last");
      has_limit_ = list.given("--limit");
      if (!all_ || !has_limit_) return {};
      return invalid_argument("--all and --limit exclude each other", "leave out one of them");
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    Result<WindowShares> window = ask(client);
    if (!window) return window.error();
    if (window->processes.empty() && !request_.target.empty()) {
      return nothing_matched_in(request_.range);
    }
    if (console.json) {
      if (has_limit_ && window->processes.size() > limit_) window->processes.resize(limit_);
      if (has_limit_ && window->groups.size() > limit_) window->groups.resize(limit_);
      console.out << to_json(*window) << "\n";
      return kExitOk;
    }
    print(*window, console);
    if (sees_own_processes_alone()) say_that_others_are_hidden(console);
    if (!has_range_) remark_that_mode_is_off(client, console);
    return kExitOk;
  }

 private:
  // Without a range, of the last window.
  Result<WindowShares> ask(Client& client) {
    if (!has_range_) {
      Result<WindowShares> last = client.last_window();
      if (!last || request_.target.empty()) return last;
      const auto started = parse_utc(last->started);
      const auto ended = parse_utc(last->ended);
      if (!started || !ended) return fail(ErrorCode::kMalformed, "profd sent an invalid time");
      constexpr std::uint64_t kMsOfSecond = 1000;
      request_.range = {.since_ms = static_cast<std::uint64_t>(*started) * kMsOfSecond,
                        .until_ms = static_cast<std::uint64_t>(*ended) * kMsOfSecond};
    }
    request_.sum = true;
    Result<History> history = client.history(request_);
    if (!history) return history.error();
    if (history->windows.empty()) return no_windows_in(request_.range, client);
    return std::move(history->windows.front());
  }

  void print(const WindowShares& window, const Console& console) const {
    const bool has_lost = knows_lost_samples(request_.target);
    console.out << wrapped(heading_of(window, has_lost), console.screen) << "\n\n";
    const std::size_t limit = all_ ? SIZE_MAX : has_limit_ ? limit_ : kShownRows;
    const PsTable ps =
        is_by_process_ ? table_of_processes(window, limit) : table_of_groups(window, limit);
    console.out << ps.table.text(console.screen);
    if (ps.left_out != 0) {
      say_not_shown(std::to_string(ps.left_out) + " more", "--all", console);
    }
  }

  HistoryRequest request_;
  std::uint64_t limit_ = 0;
  bool is_by_process_ = false;
  bool all_ = false;
  bool has_limit_ = false;
  bool has_range_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_ps() { return std::make_unique<Ps>(); }

}  // namespace profd
