#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>

#include "ctl/client/caller_rights.h"
#include "ctl/client/signal_watch.h"
#include "ctl/commands/fetch_result.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/sampling_cost.h"
#include "ctl/commands/subcommand.h"
#include "ctl/output/terminal.h"
#include "ctl/output/text.h"
#include "ctl/process/ask_runtime.h"
#include "ctl/process/held_command.h"
#include "ctl/process/named_processes.h"
#include "ctl/views/time_kind.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTick{500};
constexpr milliseconds kShortestTick{20};

// The daemon stops a session whose lease ends, because its `record` was killed. Every tick renews
// the lease. It is long, so that a busy host does not end a recording.
constexpr milliseconds kLease{30'000};

// How often runtimes are asked for symbols, besides at the start and at the end. Code that is
// compiled and freed within this time has no symbols.
constexpr std::chrono::minutes kAskInterval{1};

// How long a command that is no target any more may take until it can be waited for.
constexpr milliseconds kReapLimit{5'000};

struct RecordOptions {
  StartRequest request;
  // Empty: records the target of the request. With a target too, the recording of that lasts as
  // long as the command.
  std::vector<std::string> command;
  Destination output;
  WrittenList written{.all_option = "--all-files"};  // --all is a target
  bool ask_runtime = false;
};

// "recording pid 1234  5 s of 1 min  495 samples  0 lost". Where that has more columns, the target
// is cut first. `duration_ms` is 0 for a recording without a fixed end.
std::string progress_line(const SessionInfo& session, std::uint64_t duration_ms,
                          std::size_t columns) {
  constexpr std::size_t kWidestTarget = 40;
  const std::string start = "recording ";
  std::string rest = "  " + duration_text(session.seconds);
  if (duration_ms != 0) rest += " of " + duration_text(static_cast<double>(duration_ms) / 1000);
  const std::string noun = kind_names(time_kind_of_event(session.event)).noun;
  rest += "  " + std::to_string(session.samples) + " " + noun + "s  " +
          std::to_string(session.lost) + " lost";
  const std::size_t taken = columns_of(start) + columns_of(rest);
  const std::size_t left = columns > taken ? columns - taken : 0;
  const std::string target = printable(describe(session.target));
  return start_that_fits(start + start_that_fits(target, std::min(left, kWidestTarget)) + rest,
                         columns);
}

// A line about the recording, redrawn in place; nothing if standard error is no terminal.
class Progress {
 public:
  explicit Progress(const Console& console) : console_(console) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (is_shown_) console_.err << kClearLine << std::flush;
  }

  void show(const SessionInfo& session, std::uint64_t duration_ms) {
    if (!console_.err_screen.is_terminal()) return;
    // After the last column some terminals begin the next line, where the line can't be cleared.
    console_.err << kClearLine << progress_line(session, duration_ms, width() - 1) << std::flush;
    is_shown_ = true;
  }

 private:
  static constexpr const char* kClearLine = "\r\x1b[K";

  // A terminal that was made narrower wraps a line of its former width.
  [[nodiscard]] std::size_t width() const {
    const Screen now = screen_of(STDERR_FILENO);
    const std::size_t before = console_.err_screen.width;
    return now.is_terminal() ? std::min(now.width, before) : before;
  }

  const Console& console_;
  bool is_shown_ = false;
};

// One recording, from the start of its session to the files of its result. The signals SIGINT,
// SIGTERM, SIGHUP and SIGCHLD of the thread are blocked and waited for.
class Recording {
 public:
  Recording(Client& client, const RecordOptions& options, const Console& console)
      : client_(client), options_(options), console_(console) {}

  Result<int> record_target() {
    if (auto checked = check_output(options_.output); !checked) return checked.error();
    if (options_.ask_runtime) {
      auto asked = ask_for_perf_maps(options_.request.target.pids);
      if (!asked) return asked.error();
    }
    if (auto started = start(request()); !started) return started.error();
    return record_to_the_end(console_);
  }

  // Returns the exit status of the command, or one of the last three exit codes.
  int record_command() {
    if (auto held = start_with_command(); !held) {
      report(console_, held.error());
      return kExitRecordFailed;
    }
    if (auto resumed = command_->resume(); !resumed) {
      discard_session();
      report(console_, resumed.error());
      const bool is_absent = resumed.error().code == ErrorCode::kNotFound;
      return is_absent ? kExitCommandNotFound : kExitNotExecutable;
    }
    // Standard output belongs to the command. profctl uses it only for the JSON of --json.
    const Console quiet{.out = console_.json ? console_.out : console_.err,
                        .err = console_.err,
                        .json = console_.json};
    const auto recorded = record_to_the_end(quiet);
    if (!recorded) report(console_, recorded.error());
    const int status = command_->wait();
    return recorded ? status : static_cast<int>(kExitRecordFailed);
  }

 private:
  // With --ask-runtime profctl ends the session itself, so that the last answer of the runtime
  // arrives while the session runs.
  [[nodiscard]] StartRequest request() const {
    StartRequest request = options_.request;
    request.lease_ms = static_cast<std::uint64_t>(kLease.count());
    if (options_.ask_runtime) request.duration_ms = 0;
    return request;
  }

  Result<void> start(const StartRequest& request) {
    const auto session = client_.start(request);
    if (!session) return session.error();
    session_ = *session;
    started_ = asked_ = Clock::now();
    find_targets_by_name();
    return {};
  }

  Result<void> start_with_command() {
    if (auto checked = check_output(options_.output); !checked) return checked;
    // Standard output is the command's, or the profile's.
    const auto output = options_.output.path == "-" ? HeldCommand::Output::kStandardError
                                                    : HeldCommand::Output::kStandardOutput;
    auto command = HeldCommand::fork(options_.command, signals_.former_mask(), output);
    if (!command) return command.error();
    command_.emplace(std::move(*command));
    StartRequest with_command = request();
    if (with_command.target.empty()) {
      with_command.target.pids = {static_cast<std::uint32_t>(command_->pid())};
      with_command.from_exec = true;
    }
    return start(with_command);
  }

  // Nothing ran, so the result is empty. After an error here the lease ends the session.
  void discard_session() {
    const auto result = client_.stop(session_);
    if (result) (void)client_.remove(result->result);
  }

  Result<int> record_to_the_end(const Console& console) {
    if (auto waited = wait_for_end(); !waited) return with_way_out(waited.error());
    if (command_ && are_targets_gone_ && options_.request.target.empty()) reap_command();
    if (command_ && !was_signalled_ && !command_has_ended()) {
      console_.err << "profctl: the recording has ended after "
                   << duration_text(std::chrono::duration<double>(Clock::now() - started_).count())
                   << "; the command runs on, as pid " << command_->pid() << "\n";
    }
    auto written = stop_and_write(console);
    return written ? written : with_way_out(written.error());
  }

  // Returns when the session or the command ended, or when a signal asks profctl to stop. An error
  // means that the daemon can't be asked any more.
  Result<void> wait_for_end() {
    Progress progress(console_);
    while (true) {
      const auto arrival = signals_.wait(next_tick());
      if (arrival) {
        if (!ends_recording(*arrival)) continue;
        was_signalled_ = arrival->signal != SIGCHLD;
        ask_runtimes();  // a signal ends the recording while its targets still run
        return {};
      }
      if (command_has_ended()) return {};
      find_targets_by_name();
      const auto session = client_.session(session_);
      if (!session) return session.error();
      are_targets_gone_ = !session->targets_alive;
      if (session->state != "running" || are_targets_gone_) return {};
      if (is_over()) {
        ask_runtimes();
        return {};
      }
      if (Clock::now() - asked_ >= kAskInterval) ask_runtimes();
      // A progress line would be mixed with the output of a command.
      if (!command_ && !options_.written.is_quiet) {
        progress.show(*session, options_.request.duration_ms);
      }
    }
  }

  // Shorter near the end of a duration, so that a recording of 1 s takes little more than that.
  [[nodiscard]] milliseconds next_tick() const {
    if (options_.request.duration_ms == 0) return kTick;
    const auto left = std::chrono::ceil<milliseconds>(end() - Clock::now());
    return std::clamp(left, kShortestTick, kTick);
  }

  [[nodiscard]] Clock::time_point end() const {
    return started_ + milliseconds(options_.request.duration_ms);
  }

  // Whether a duration ended that the daemon does not know (see request()).
  [[nodiscard]] bool is_over() const {
    return options_.ask_runtime && options_.request.duration_ms != 0 && Clock::now() >= end();
  }

  bool command_has_ended() { return command_ && command_->status().has_value(); }

  // The daemon sees the end of a process before its parent can wait for it: the kernel unmaps its
  // memory between the two. So a command whose processes are gone gets time to be reaped, before it
  // counts as one that runs on.
  void reap_command() {
    const auto limit = Clock::now() + kReapLimit;
    while (!command_has_ended() && !was_signalled_) {
      const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now());
      if (left <= milliseconds::zero()) return;
      const auto arrival = signals_.wait(left);
      if (arrival && ends_recording(*arrival)) was_signalled_ = arrival->signal != SIGCHLD;
    }
  }

  // Passes a signal of kill(2) on to the command. A terminal has sent its signal to both.
  bool ends_recording(const SignalWatch::Arrival& arrival) {
    if (arrival.signal == SIGCHLD) return command_has_ended();
    if (command_ && !arrival.from_terminal) command_->send(arrival.signal);
    return true;
  }

  // A runtime that does not answer costs symbols, not the recording.
  void ask_runtimes() {
    if (!options_.ask_runtime) return;
    asked_ = Clock::now();
    const auto asked = ask_for_perf_maps(options_.request.target.pids);
    if (!asked) (void)report(console_, asked.error());
  }

  Result<int> stop_and_write(const Console& console) {
    Destination output = options_.output;
    use_default_directory(session_, output);
    if (auto checked = check_output(output); !checked) return checked.error();
    find_targets_by_name();
    const auto result = client_.stop(session_);
    if (!result) return result.error();
    const bool is_empty = result->summary.ledger.taken == 0;
    if (is_empty && is_by_name_alone() && !found_.are_there) {
      (void)client_.remove(result->result);
      return nothing_matched("'profctl ps' shows the names of those that used the CPU");
    }
    auto fetched = fetch_result(client_, *result, output, options_.written, console);
    if (is_empty && found_.are_there && !found_.are_of_caller && sees_own_processes_alone()) {
      console.err << "profctl: the processes of that name belong to other users\n"
                     "hint: root and the group profd may sample them\n";
    }
    return fetched;
  }

  // Whether nothing but command names says what is recorded.
  [[nodiscard]] bool is_by_name_alone() const {
    TargetRequest others = options_.request.target;
    others.comms.clear();
    return !command_ && !options_.request.target.comms.empty() && others.empty();
  }

  // Until one of the caller's is found. One that lives shorter than a tick is found by its samples.
  void find_targets_by_name() {
    if (!is_by_name_alone() || found_.are_of_caller) return;
    const NamedProcesses now = find_named_processes(options_.request.target.comms);
    found_.are_there = found_.are_there || now.are_there;
    found_.are_of_caller = now.are_of_caller;
  }

  // The samples are still in the daemon: `stop` can write them, a second `record` can't.
  [[nodiscard]] Error with_way_out(Error error) const {
    const std::string stop = "'profctl stop " + session_ + " -o OUTPUT'";
    if (error.code == ErrorCode::kIo || error.code == ErrorCode::kPermissionDenied) {
      error.hint = "profd keeps the samples: " + stop + " writes them when that is mended";
    } else if (error.code == ErrorCode::kUnavailable) {
      error.hint = "when profd answers again, " + stop + " writes what it has";
    }
    return error;
  }

  Client& client_;
  const RecordOptions& options_;
  const Console& console_;
  SignalWatch signals_{SIGINT, SIGTERM, SIGHUP, SIGCHLD};
  std::optional<HeldCommand> command_;
  std::string session_;
  NamedProcesses found_;           // in the whole time, of a target by name
  bool was_signalled_ = false;     // a signal ended the recording
  bool are_targets_gone_ = false;  // as the daemon said last
  Clock::time_point started_;
  Clock::time_point asked_;  // when runtimes were last asked
};

class Record final : public Subcommand {
 public:
  Record()
      : Subcommand("record",
                   "Start, wait and stop in one: for a time, until Ctrl-C, or until the command "
                   "after -- ends") {}

  void add_options(OptionList& list) override {
    add_session_request(list, options_.request, asks_for_stacks_);
    list.command(options_.command);
    list.rule([this] { return check_target(); });
    add_ask_runtime(list, options_.request.target, options_.ask_runtime);
    add_output(list, "./profd-SESSION", options_.output);
    add_written_list(list, options_.written);
  }

  Result<int> run(Client& client, const Console& console) override {
    warn_of_cost(options_.request, console);
    if (asks_for_stacks_) say_that_stacks_are_always_on(console);
    Recording recording(client, options_, console);
    if (options_.command.empty()) return recording.record_target();
    return recording.record_command();
  }

 private:
  [[nodiscard]] Result<void> check_target() const {
    const bool has_target = !options_.request.target.empty();
    const bool has_command = !options_.command.empty();
    if (!has_target && !has_command) {
      return invalid_argument("no target is given",
                              "name one (--pid, --all, ...) or a command: -- CMD ARGS");
    }
    return {};
  }

  RecordOptions options_;
  bool asks_for_stacks_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_record() { return std::make_unique<Record>(); }

}  // namespace profd
