#include "ctl/options.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/option_values.h"

namespace profd {
namespace {

constexpr const char* kDefaultSocket = "/run/profd/profd.sock";

constexpr const char* kExamples = R"(Examples:
  profctl start --pid 1234                       begin to profile a process and its children; prints an id
  profctl stop ID -o out                         end it and write out/COMM.PID.prof and out/session.json
  profctl record -d 10s -o out -a                the whole host for 10 s
  profctl record -o out -- ./server --port 80    a command, from its first instruction to its end
  profctl record -n nginx -F 499 -d 30s -o out   every process of that name, 499 times a second
  profctl status                                 what profd does and what it costs

  pprof -http=localhost:8080 out/nginx.812.prof  look at a profile
)";

constexpr const char* kFooter = R"(
Exit codes: 0 ok, 1 failed, 2 usage, 3 profd is not running, 4 no such process or session, 5 not permitted,
6 the host lacks a feature. 'record -- CMD' passes CMD's status on; 125 profctl failed, 126 CMD can't be executed,
127 there is no CMD.)";

// CLI11 puts usage first; readers look for an example.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const bool is_whole = mode == CLI::AppFormatMode::Normal && app->get_parent() == nullptr;
    return (is_whole ? std::string(kExamples) + "\n" : std::string()) +
           CLI::Formatter::make_help(app, std::move(name), mode);
  }
};

// Option values as they stand on the command line; turned into a request once all of it is read.
struct Words {
  std::vector<std::string> pids;
  std::vector<std::string> comms;
  std::vector<std::string> cgroups;
  std::vector<std::string> users;
  bool all = false;
  bool no_children = false;
  std::string event;
  std::string frequency;
  std::string period;
  std::string duration;
};

void add_target(CLI::App& verb, Words& words) {
  const auto one_each = [](CLI::Option* option) {
    return option->allow_extra_args(false)->group("Target");
  };
  one_each(
      verb.add_option("-p,--pid", words.pids, "Processes by pid: 1234 or 1234,5678; repeatable"))
      ->delimiter(',')
      ->type_name("PID");
  one_each(verb.add_option("-n,--comm", words.comms, "Processes of this command name; repeatable"))
      ->type_name("NAME");
  one_each(verb.add_option("-G,--cgroup", words.cgroups, "Processes in this cgroup (v2) and below"))
      ->type_name("PATH");
  one_each(verb.add_option("--uid", words.users, "Processes of this user, by number or name"))
      ->type_name("USER");
  verb.add_flag("-a,--all", words.all, "Every process of the host")->group("Target");
  verb.add_flag("--no-children", words.no_children, "Leave out the children of --pid")
      ->group("Target");
}

void add_sampling(CLI::App& verb, Words& words) {
  verb.add_option("-e,--event", words.event,
                  "perf's name of the event, for example page-faults [cpu]")
      ->type_name("EVENT");
  verb.add_option("-F,--freq", words.frequency,
                  "Samples a second on each CPU [99]; for what is no time rather --period")
      ->type_name("HZ");
  verb.add_option("-c,--period", words.period, "Events a sample, instead of --freq")
      ->type_name("N");
  verb.add_option("-d,--duration", words.duration, "End after 500ms, 10s, 5m, 1h")
      ->type_name("TIME");
}

void add_output(CLI::App& verb, Options& options) {
  verb.add_option("-o,--output", options.output,
                  "Directory to write to; made if absent [./profd-ID]")
      ->type_name("DIR");
}

void add_session(CLI::App& verb, Options& options) {
  verb.add_option("session", options.session, "What 'start' printed")->required()->type_name("ID");
  add_output(verb, options);
}

CLI::App& add_verb(CLI::App& app, Options& options, Verb verb, const char* name, const char* what) {
  CLI::App* const added = app.add_subcommand(name, what);
  added->fallthrough();  // --json and --socket may stand behind the verb too
  added->footer("Also --json and --socket; 'profctl --help' has examples.");
  added->callback([&options, verb] { options.verb = verb; });
  return *added;
}

void add_verbs(CLI::App& app, Options& options, Words& words) {
  CLI::App& start =
      add_verb(app, options, Verb::kStart, "start", "Begin a session and print its id");
  add_target(start, words);
  add_sampling(start, words);
  add_session(add_verb(app, options, Verb::kStop, "stop", "End a session and write its profiles"),
              options);
  add_session(
      add_verb(app, options, Verb::kDump, "dump", "Write a session's profiles so far; it goes on"),
      options);
  CLI::App& record =
      add_verb(app, options, Verb::kRecord, "record",
               "Start, wait, stop in one: for a time, until Ctrl-C, or for a command "
               "given behind --");
  add_target(record, words);
  add_sampling(record, words);
  add_output(record, options);
  add_verb(app, options, Verb::kList, "list", "Show the sessions");
  add_verb(app, options, Verb::kStatus, "status", "Show what profd does and what it costs");
}

// Reads each word by `parse` into `out`; the first that can't be read is the error.
template <class T, class Parse>
Result<void> read_each(const std::vector<std::string>& words, Parse parse, std::vector<T>& out) {
  for (const std::string& word : words) {
    const Result<T> value = parse(word);
    if (!value) return value.error();
    out.push_back(*value);
  }
  return {};
}

Result<void> read_target(const Words& words, TargetRequest& out) {
  out.all = words.all;
  out.comms = words.comms;
  std::ranges::transform(words.cgroups, std::back_inserter(out.cgroups), parse_cgroup);
  if (auto read = read_each(words.pids, parse_pid, out.pids); !read) return read;
  return read_each(words.users, parse_user, out.uids);
}

// An option that was given at all counts, so that an empty value is an error and not the default.
Result<void> read_sampling(const CLI::App& verb, const Words& words, StartRequest& out) {
  if (verb.count("--event") != 0) out.event = words.event;
  if (verb.count("--freq") != 0) {
    const auto frequency_hz = parse_frequency(words.frequency);
    if (!frequency_hz) return frequency_hz.error();
    out.frequency_hz = *frequency_hz;
  }
  if (verb.count("--period") != 0) {
    const auto period = parse_period(words.period);
    if (!period) return period.error();
    out.period = *period;
  }
  if (verb.count("--duration") != 0) {
    const auto duration_ms = parse_duration_ms(words.duration);
    if (!duration_ms) return duration_ms.error();
    out.duration_ms = *duration_ms;
  }
  out.children = !words.no_children;
  return {};
}

Error usage(std::string message, std::string hint) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

Result<void> check_command(const Options& options) {
  const bool has_command = !options.command.empty();
  const bool has_target = !options.request.target.empty();
  if (options.verb != Verb::kStart && options.verb != Verb::kRecord) return {};
  if (!has_target && !has_command) {
    return usage("no target is given", options.verb == Verb::kStart
                                           ? "name one: --pid, --comm, --cgroup, --uid or --all"
                                           : "name one (--pid, --all, ...) or a command: -- CMD");
  }
  if (has_target && has_command) {
    return usage("a target and a command exclude each other", "leave out one of them");
  }
  return {};
}

// CLI11 throws for whatever it can't read, and for --help.
Result<std::variant<Options, HelpText>> parse(CLI::App& app, Options& options,
                                              std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // as CLI11 takes a vector
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto verbs = app.get_subcommands();
    return HelpText{verbs.empty() ? app.help() : verbs.front()->help("profctl")};
  } catch (const CLI::CallForVersion& version) {
    return HelpText{std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return usage(error.what(), "'profctl --help' has examples");
  }
  return std::move(options);
}

}  // namespace

Result<std::variant<Options, HelpText>> parse_options(std::vector<std::string> arguments) {
  Options options;
  Words words;
  const auto dashes = std::ranges::find(arguments, "--");
  const bool has_dashes = dashes != arguments.end();
  if (has_dashes) options.command.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());

  CLI::App app("profctl drives profd, the profiler of this host.", "profctl");
  app.formatter(std::make_shared<ExamplesFirst>());
  app.set_version_flag("--version", "profctl " PROFD_VERSION);
  app.add_flag("--json", options.json, "Answer in JSON, one line; errors too");
  app.add_option("--socket", options.socket, "profd's socket")
      ->envname("PROFD_SOCKET")
      ->default_val(kDefaultSocket)
      ->type_name("PATH");
  app.require_subcommand(0, 1);  // none: our own, clearer error
  app.footer(kFooter);
  add_verbs(app, options, words);

  auto parsed = parse(app, options, std::move(arguments));
  if (!parsed || std::holds_alternative<HelpText>(*parsed)) return parsed;
  auto& read = std::get<Options>(*parsed);
  if (app.get_subcommands().empty())
    return usage("no verb is given", "'profctl --help' has examples");
  if (auto target = read_target(words, read.request.target); !target) return target.error();
  if (read.verb == Verb::kStart || read.verb == Verb::kRecord) {
    const CLI::App& verb = *app.get_subcommands().front();
    if (auto sampling = read_sampling(verb, words, read.request); !sampling)
      return sampling.error();
  }
  if (has_dashes && (read.verb != Verb::kRecord || read.command.empty())) {
    return usage("there is no command behind --", "'--' is for 'profctl record -- CMD ARGS'");
  }
  if (auto checked = check_command(read); !checked) return checked.error();
  return parsed;
}

}  // namespace profd
