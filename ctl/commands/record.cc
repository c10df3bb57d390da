// record: start, wait, stop in one; for a target, or for a command from its first instruction to
// its end.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/ask_runtime.h"
#include "ctl/commands/commands.h"
#include "ctl/commands/fetch_result.h"
#include "ctl/commands/target_command.h"
#include "ctl/output/directory.h"
#include "ctl/output/progress.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTick{500};
constexpr milliseconds kShortestTick{20};

// A session that `record` started ends without it (killed, say): each tick renews the lease. Long,
// so that a host which hardly lets us run does not cut a recording short.
constexpr milliseconds kLease{30'000};

// How often runtimes are asked for names while `record` runs, beside the last time at the end: what
// they made and threw away in between stays without.
constexpr std::chrono::minutes kAskEvery{1};

struct Recording {
  Client& client;
  const Options& options;
  const Console& console;
  SignalWatch& signals;
  std::string session;
  Clock::time_point started = Clock::now();
  Clock::time_point asked = Clock::now();
};

std::filesystem::path directory_of(const Recording& recording) {
  const Options& options = recording.options;
  return options.output.empty() ? "profd-" + recording.session : options.output;
}

// Where runtimes are asked, the end is ours: their last answer comes while the session still runs.
StartRequest request_of(const Options& options) {
  StartRequest request = options.request;
  request.lease_ms = static_cast<std::uint64_t>(kLease.count());
  if (options.ask_runtime) request.duration_ms = 0;
  return request;
}

// Whether a duration that we keep is over.
bool is_our_end(const Recording& recording) {
  const milliseconds duration(recording.options.request.duration_ms);
  return recording.options.ask_runtime && duration != milliseconds(0) &&
         Clock::now() >= recording.started + duration;
}

// Short towards the end of a duration, so that a recording of 1 s takes little more.
milliseconds next_tick(const Recording& recording) {
  if (recording.options.request.duration_ms == 0) return kTick;
  const auto end = recording.started + milliseconds(recording.options.request.duration_ms);
  const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
  return std::clamp(left, kShortestTick, kTick);
}

// Who does not answer costs names, and not the recording.
void ask_runtimes(Recording& recording) {
  if (!recording.options.ask_runtime) return;
  recording.asked = Clock::now();
  const auto asked = ask_for_perf_maps(recording.options.request.target.pids);
  if (!asked) (void)report(recording.console, asked.error());
}

bool has_ended(Command* command) { return command != nullptr && command->status().has_value(); }

// Whether the signal ends the recording. A terminal has told the command itself; anyone else only
// told us.
bool ends_recording(const SignalWatch::Arrival& arrival, Command* command) {
  if (arrival.signal == SIGCHLD) return has_ended(command);
  if (command != nullptr && !arrival.from_terminal) command->send(arrival.signal);
  return true;
}

// Until the session is over, the command has ended, or a signal asks for the end. Error: the daemon
// is lost.
Result<void> wait_for_the_end(Recording& recording, Command* command) {
  Progress progress(recording.console);
  while (true) {
    const auto arrival = recording.signals.wait(next_tick(recording));
    if (arrival) {
      if (!ends_recording(*arrival, command)) continue;
      ask_runtimes(recording);  // the targets are still there
      return {};
    }
    if (has_ended(command)) return {};
    const auto session = recording.client.session(recording.session);
    if (!session) return session.error();
    if (session->state != "running" || !session->targets_alive) return {};
    if (is_our_end(recording)) {
      ask_runtimes(recording);
      return {};
    }
    if (Clock::now() - recording.asked >= kAskEvery) ask_runtimes(recording);
    // A command's own output would be torn by a line that is redrawn.
    if (command == nullptr) progress.show(*session, recording.options.request.duration_ms);
  }
}

// `record` can't be run again for the samples it has; `stop` can.
Error with_way_out(Error error, const Recording& recording) {
  const std::string stop = "'profctl stop " + recording.session + " -o DIR'";
  if (error.code == ErrorCode::kIo) {
    error.hint = "profd keeps the samples: " + stop + " writes them to another directory";
  } else if (error.code == ErrorCode::kUnavailable) {
    error.hint = "once profd answers again, " + stop + " writes what it has";
  }
  return error;
}

Result<void> stop_and_write(const Recording& recording, const Console& console) {
  const auto directory = directory_of(recording);
  if (auto free = OutputDirectory::check(directory); !free) return free;
  const auto result = recording.client.stop(recording.session);
  if (!result) return result.error();
  return fetch_result(recording.client, *result, directory, recording.options.json, console);
}

Result<void> record_to_the_end(Recording& recording, Command* command, const Console& console) {
  auto recorded = wait_for_the_end(recording, command);
  if (recorded) recorded = stop_and_write(recording, console);
  if (!recorded) return with_way_out(recorded.error(), recording);
  return {};
}

// A directory that can't be used is told before anything has run. Without -o its name is not known
// before the id.
Result<void> check_output(const Options& options) {
  if (options.output.empty()) return {};
  return OutputDirectory::check(options.output);
}

int record_target(Recording& recording) {
  const Console& console = recording.console;
  if (auto free = check_output(recording.options); !free) return report(console, free.error());
  if (recording.options.ask_runtime) {
    const auto asked = ask_for_perf_maps(recording.options.request.target.pids);
    if (!asked) return report(console, asked.error());
  }
  const auto session = recording.client.start(request_of(recording.options));
  if (!session) return report(console, session.error());
  recording.session = *session;
  recording.started = recording.asked = Clock::now();
  const auto recorded = record_to_the_end(recording, nullptr, console);
  return recorded ? static_cast<int>(kExitOk) : report(console, recorded.error());
}

Result<Command> start_on_command(Recording& recording) {
  if (auto free = check_output(recording.options); !free) return free.error();
  auto command = Command::fork(recording.options.command, recording.signals.former_mask());
  if (!command) return command.error();
  StartRequest request = request_of(recording.options);
  request.target.pids = {static_cast<std::uint32_t>(command->pid())};
  request.from_exec = true;
  const auto session = recording.client.start(request);
  if (!session) return session.error();
  recording.session = *session;
  return command;
}

// Nothing ran, so there is nothing to write. What the daemon still holds after an error goes by
// itself in time.
void forget_session(const Recording& recording) {
  const auto result = recording.client.stop(recording.session);
  if (result) (void)recording.client.remove(result->result);
}

int record_command(Recording& recording) {
  const Console& console = recording.console;
  auto command = start_on_command(recording);
  if (!command) {
    report(console, command.error());
    return kExitRecordFailed;
  }
  if (auto running = command->let_go(); !running) {
    forget_session(recording);
    report(console, running.error());
    const bool is_absent = running.error().code == ErrorCode::kNotFound;
    return is_absent ? kExitCommandNotFound : kExitNotExecutable;
  }
  // Standard output is the command's; only what was asked for as JSON joins it.
  const Console quiet{recording.options.json ? console.out : console.err, console.err};
  const auto recorded = record_to_the_end(recording, &*command, quiet);
  if (!recorded) report(console, recorded.error());
  const int status = command->wait();
  return recorded ? status : static_cast<int>(kExitRecordFailed);
}

}  // namespace

int run_record(Client& client, const Options& options, const Console& console) {
  SignalWatch signals({SIGINT, SIGTERM, SIGHUP, SIGCHLD});
  Recording recording{client, options, console, signals, {}};
  return options.command.empty() ? record_target(recording) : record_command(recording);
}

}  // namespace profd
