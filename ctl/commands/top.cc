// Shows who uses the CPU now, and in which functions, again and again: on a terminal in two panes,
// otherwise as text or JSON.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/hidden_processes.h"
#include "ctl/commands/sampling_cost.h"
#include "ctl/commands/subcommand.h"
#include "ctl/options/values.h"
#include "ctl/output/live_screen.h"
#include "ctl/output/text.h"
#include "ctl/sources/session_part.h"
#include "ctl/views/idle.h"
#include "ctl/views/top_part.h"
#include "ctl/views/top_view.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kUsualDelayMs = 2000;
constexpr std::uint64_t kShortestDelayMs = 100;
// The first samples are shown sooner than at the usual pace.
constexpr milliseconds kFirstDelay{500};
// Besides the time between two refreshes. A suspended top keeps its session for that long.
constexpr std::uint64_t kLeaseMs = 30'000;

struct TopOptions {
  StartRequest request;
  std::uint64_t delay_ms = kUsualDelayMs;
  std::uint64_t refreshes = 0;  // 0: until it is ended
  std::uint64_t rows = 0;       // of each list; 0: not given
  bool is_batch = false;
  bool has_idle = false;  // threads that wait all the time
};

Result<std::uint64_t> parse_delay(const std::string& text) {
  auto delay = parse_duration_ms(text);
  if (delay && *delay >= kShortestDelayMs) return delay;
  return invalid_argument("invalid --delay " + text + " (at least 100ms)",
                          "give a time between two refreshes, for example 2s");
}

Result<std::uint64_t> parse_refreshes(const std::string& text) {
  if (auto count = parse_limit(text)) return count;
  return invalid_argument("invalid --iterations " + text + " (1 or more)",
                          "give how often to refresh, as -n 1; to match by name use --comm");
}

// A session of the target. Without one, of all that the caller may see, and `request` then says
// so.
Result<TakenSession> start_session(Client& client, StartRequest& request, const Console& console) {
  const bool has_target = !request.target.empty();
  if (!has_target) request.target.all = true;
  auto session = TakenSession::start(client, request);
  if (session || has_target || session.error().code != ErrorCode::kPermissionDenied) {
    return session;
  }
  say_that_others_are_hidden(console);
  request.target = TargetRequest();
  request.target.uids = {::getuid()};
  return TakenSession::start(client, request);
}

// Idle threads are left out as in a report.
TopPart shown_part(SessionPart& part, const TopOptions& options) {
  if (!options.has_idle) fold_idle(part.samples);
  return make_top_part(part.samples, part.summary, NameForm::kShort);
}

// Ctrl-C is the usual end.
int exit_code_of_signal(int signal) { return signal == SIGINT ? kExitOk : 128 + signal; }

// One after the other, as text or JSON.
class BatchTop {
 public:
  // `given`: the target of the command line, which may be empty.
  BatchTop(TakenSession& session, SignalWatch& signals, const TopOptions& options,
           const TargetRequest& given, const Console& console)
      : session_(session), signals_(signals), options_(options), given_(given), console_(console) {}

  // kNotFound: no refresh had a sample of a target.
  Result<int> run() {
    bool has_sample = given_.empty() || given_.all;
    Clock::time_point next = Clock::now();
    for (std::uint64_t i = 0; options_.refreshes == 0 || i < options_.refreshes; ++i) {
      next += milliseconds(options_.delay_ms);
      if (const auto signal = wait_until(next)) return exit_code_of_signal(*signal);
      auto part = session_.take();
      if (!part) return part.error();
      print(shown_part(*part, options_), i == 0);
      has_sample = has_sample || !part->samples.rows().empty();
      if (!console_.out || session_.has_ended()) break;
    }
    if (has_sample) return kExitOk;
    return fail(ErrorCode::kNotFound, "no sample is of " + describe(given_),
                "'profctl top' without a target shows who uses the CPU");
  }

 private:
  std::optional<int> wait_until(Clock::time_point time) {
    const auto left = std::chrono::ceil<milliseconds>(time - Clock::now());
    const auto arrival = signals_.wait(std::max(left, milliseconds(0)));
    return arrival ? std::optional(arrival->signal) : std::nullopt;
  }

  void print(const TopPart& part, bool is_first) {
    if (console_.json) {
      const std::size_t rows = options_.rows == 0 ? SIZE_MAX : options_.rows;
      console_.out << to_json(part, rows) << "\n" << std::flush;
      return;
    }
    constexpr std::size_t kUsualRows = 20;
    console_.out << (is_first ? "" : "\n") << local_text(part.summary.started) << ", "
                 << top_text(part, options_.rows == 0 ? kUsualRows : options_.rows, console_.screen)
                 << std::flush;
  }

  TakenSession& session_;
  SignalWatch& signals_;
  const TopOptions& options_;
  const TargetRequest& given_;
  const Console& console_;
};

// On a terminal.
class LiveTop {
 public:
  // `session` is empty for no longer than a call.
  LiveTop(Client& client, std::optional<TakenSession>& session, SignalWatch& signals,
          const TopOptions& options, std::ostream& out)
      : client_(client),
        session_(session),
        signals_(signals),
        options_(options),
        view_(options.request.target.all ? "all processes" : describe(options.request.target)),
        screen_(STDIN_FILENO, out) {}

  Result<int> run() {
    next_ = Clock::now() + std::min(kFirstDelay, milliseconds(options_.delay_ms));
    draw();
    std::uint64_t refreshes = 0;
    while (!exit_code_) {
      if (session_->has_ended()) {
        wait_for_input(std::nullopt);
      } else if (Clock::now() < next_) {
        wait_for_input(next_);
      } else {
        if (auto refreshed = refresh(); !refreshed) return refreshed.error();
        if (++refreshes == options_.refreshes) return kExitOk;
      }
    }
    return *exit_code_;
  }

 private:
  Result<void> refresh() {
    next_ = Clock::now() + milliseconds(options_.delay_ms);
    auto part = session_->take();
    if (!part) return part.error();
    view_.set_part(shown_part(*part, options_));
    if (session_->has_ended()) {
      if (was_suspended_) {
        if (auto again = start_again(); !again) return again;
      } else {
        view_.set_message("the target has ended; q quits");
      }
    }
    was_suspended_ = false;
    draw();
    return {};
  }

  // Nobody asked for the session while the program was suspended, so its lease may have ended.
  Result<void> start_again() {
    auto started = TakenSession::start(client_, options_.request);
    if (!started) return started.error();
    session_.emplace(std::move(*started));
    return {};
  }

  void wait_for_input(std::optional<Clock::time_point> end) {
    std::array<pollfd, 2> ready{pollfd{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    int limit = -1;
    if (end) {
      const auto left = std::chrono::ceil<milliseconds>(*end - Clock::now());
      limit = static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
    }
    if (::poll(ready.data(), ready.size(), limit) <= 0) return;
    if (ready[1].revents != 0) handle_signal();
    if (ready[0].revents != 0 && !exit_code_) read_keys();
  }

  void handle_signal() {
    const auto arrival = signals_.wait(milliseconds(0));
    if (!arrival) return;
    if (arrival->signal == SIGTSTP) return suspend();
    if (arrival->signal != SIGWINCH) {
      exit_code_ = exit_code_of_signal(arrival->signal);
      return;
    }
    draw();
  }

  // Returns when the shell lets the program run again.
  void suspend() {
    screen_.leave();
    (void)::raise(SIGSTOP);
    screen_.enter();
    was_suspended_ = true;
    draw();
  }

  void read_keys() {
    std::array<char, 256> bytes{};
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got <= 0) {
      exit_code_ = kExitOk;  // the terminal is gone
      return;
    }
    bool has_changed = false;
    for (const Key& key : keys_.read({bytes.data(), static_cast<std::size_t>(got)})) {
      const TopView::Answer answer = view_.press(key);
      has_changed = has_changed || answer == TopView::Answer::kRedraw;
      if (answer != TopView::Answer::kQuit) continue;
      exit_code_ = kExitOk;
      return;
    }
    if (has_changed) draw();
  }

  void draw() { screen_.show(view_.lines(screen_of(STDOUT_FILENO))); }

  Client& client_;
  std::optional<TakenSession>& session_;
  SignalWatch& signals_;
  const TopOptions& options_;
  TopView view_;
  KeyReader keys_;
  LiveScreen screen_;
  Clock::time_point next_;  // refresh
  bool was_suspended_ = false;
  std::optional<int> exit_code_;
};

class Top final : public Subcommand {
 public:
  Top() : Subcommand("top", "Show live who uses the CPU, and in which functions") {}

  void add_options(OptionList& list) override {
    add_processes(list, options_.request.target, "--comm");
    list.heading("Target");
    list.flag("-a,--all", "Every process of the host, as without a target",
              options_.request.target.all);
    list.flag("--no-children", "Leave out the children of --pid", options_.request.children, false);
    list.heading("Options");
    list.option("-d,--delay", "TIME", "Refresh after 2s, 500ms, ... [2s]",
                {options_.delay_ms, parse_delay});
    list.flag("-b,--batch", "Print text, as to a pipe, and read no keys", options_.is_batch);
    list.option("-n,--iterations", "N", "End after N refreshes",
                {options_.refreshes, parse_refreshes});
    list.option("--limit", "N", "Of text and JSON: N rows of each list [20; with --json all]",
                {options_.rows, parse_limit});
    list.option("-e,--event", "EVENT", "What to sample ('profctl events' lists the names) [cpu]",
                options_.request.event);
    list.option("-F,--freq", "HZ", "Samples per second on each CPU [99]",
                {options_.request.frequency_hz, parse_frequency});
    list.flag("--idle", "Of off-cpu and wall: show threads that wait for work all the time, too",
              options_.has_idle);
    list.rule([this]() -> Result<void> {
      if (options_.request.event != "xray") return {};
      return invalid_argument("calls are not shown live",
                              "profctl record -e xray records them, 'profctl report' shows them");
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    warn_of_cost(options_.request, console);
    options_.request.lease_ms = kLeaseMs + options_.delay_ms;
    const bool is_live = !options_.is_batch && !console.json && console.screen.is_terminal() &&
                         ::isatty(STDIN_FILENO) == 1;
    // From here on, no signal ends the program before the session has ended.
    std::optional<SignalWatch> signals;
    if (is_live) {
      signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP});
    } else {
      signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP});
    }
    const TargetRequest given = options_.request.target;
    auto started = start_session(client, options_.request, console);
    if (!started) return started.error();
    std::optional<TakenSession> session(std::move(*started));
    if (is_live) return LiveTop(client, session, *signals, options_, console.out).run();
    return BatchTop(*session, *signals, options_, given, console).run();
  }

 private:
  TopOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_top() { return std::make_unique<Top>(); }

}  // namespace profd
