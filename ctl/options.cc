#include "ctl/options.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/option_values.h"
#include "formats/cgroup_path.h"
#include "formats/nearest_name.h"
#include "formats/time_text.h"

namespace profd {
namespace {

constexpr const char* kDefaultSocket = "/run/profd/profd.sock";

// Directories that are written to by default, as help shows them.
constexpr const char* kOfSession = "./profd-ID";
constexpr const char* kOfResult = "./profd-RESULT, which is printed";

constexpr const char* kExamples = R"(Examples:
  profctl start --pid 1234                       begin to profile a process and its children; prints an id
  profctl stop ID -o out                         end it and write out/COMM.PID.prof and out/session.json
  profctl record -d 10s -o out -a                the whole host for 10 s
  profctl record -o out -- ./server --port 80    a command, from its first instruction to its end
  profctl record -u nginx -F 499 -d 30s -o out   a systemd unit, 499 times a second
  profctl ps                                     who used the CPU in the last minute
  profctl export --since 14:00 --until 14:10 -o out    what the host did then
  profctl status                                 what profd does and what it costs

  profctl convert xray-log.app.* --binary ./app -o app.prof   traces of LLVM XRay into a profile

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
  std::vector<std::string> units;
  std::vector<std::string> containers;
  bool all = false;
  bool no_children = false;
  std::string event;
  std::string functions;
  std::string frequency;
  std::string period;
  std::string duration;
  std::string since;
  std::string until;
  std::string last;
  std::string limit;
};

// An option of the target, given as often as there are terms.
CLI::Option* add_term(CLI::App& verb, const char* name, std::vector<std::string>& words,
                      const char* what) {
  return verb.add_option(name, words, what)->allow_extra_args(false)->group("Target");
}

// `-c` is --period's where there is one.
void add_owners(CLI::App& verb, Words& words) {
  add_term(verb, "-u,--unit", words.units, "Processes of a systemd unit; nginx is nginx.service")
      ->type_name("UNIT");
  add_term(verb, "-c,--container", words.containers,
           "Processes of a container: its id or the beginning")
      ->type_name("ID");
}

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
  add_owners(verb, words);
  verb.add_flag("-a,--all", words.all, "Every process of the host")->group("Target");
}

void add_children(CLI::App& verb, Words& words) {
  verb.add_flag("--no-children", words.no_children, "Leave out the children of --pid")
      ->group("Target");
}

void add_sampling(CLI::App& verb, Words& words) {
  verb.add_option("-e,--event", words.event,
                  "perf's name of the event, for example page-faults [cpu]")
      ->type_name("EVENT");
  verb.add_option("--functions", words.functions,
                  "Which to record of --event xray, by a regular expression [all]")
      ->type_name("REGEX");
  verb.add_option("-F,--freq", words.frequency,
                  "Samples a second on each CPU [99]; for what is no time rather --period")
      ->type_name("HZ");
  verb.add_option("--period", words.period, "Events a sample, instead of --freq")->type_name("N");
  verb.add_option("-d,--duration", words.duration, "End after 500ms, 10s, 5m, 1h")
      ->type_name("TIME");
}

void add_range(CLI::App& verb, Words& words) {
  verb.add_option("-S,--since", words.since,
                  "From then on: \"2026-11-20 14:05\", \"Fri 2026-11-20 14:05\", 14:05, today, "
                  "yesterday, -10m, \"1h ago\", 2026-11-20T14:05:00Z, @SECONDS")
      ->type_name("TIME");
  verb.add_option("-U,--until", words.until, "Up to then [now]")->type_name("TIME");
  verb.add_option("-l,--last", words.last,
                  "The last 10m, \"1h 30min\", ...: instead of the two; 5 is 5 seconds")
      ->type_name("SPAN");
}

void add_asking(CLI::App& verb, Options& options) {
  verb.add_flag("--ask-runtime", options.ask_runtime,
                "Ask the JVMs of --pid (HotSpot 17 and later) for the names of their code");
}

// A result of a session that goes on, and that of no session, has a name of its own.
void add_output(CLI::App& verb, Options& options, const std::string& by_default) {
  verb.add_option("-o,--output", options.output,
                  "Directory to write to; made if absent [" + by_default + "]")
      ->type_name("DIR");
}

void add_session(CLI::App& verb, Options& options, const std::string& directory) {
  verb.add_option("session", options.session, "What 'start' printed")->required()->type_name("ID");
  add_output(verb, options, directory);
}

CLI::App& add_verb(CLI::App& app, Options& options, Verb verb, const char* name, const char* what) {
  CLI::App* const added = app.add_subcommand(name, what);
  added->fallthrough();  // --json and --socket may stand behind the verb too
  added->footer("Also --json and --socket; 'profctl --help' has examples.");
  added->callback([&options, verb] { options.verb = verb; });
  return *added;
}

void add_history_verbs(CLI::App& app, Options& options, Words& words) {
  CLI::App& history = add_verb(app, options, Verb::kHistory, "history",
                               "Show the windows of continuous mode and what was hot in them");
  add_range(history, words);
  history.add_option("-n,--limit", words.limit, "Show the newest N windows [100]")->type_name("N");
  CLI::App& ps =
      add_verb(app, options, Verb::kPs, "ps", "Show who used the CPU in the last window");
  add_owners(ps, words);
  ps.add_option("-n,--limit", words.limit, "Show the N that used most")->type_name("N");
  CLI::App& exported = add_verb(app, options, Verb::kExport, "export",
                                "Write the profiles of a time that continuous mode has kept");
  add_target(exported, words);
  add_range(exported, words);
  add_output(exported, options, kOfResult);
}

void add_convert(CLI::App& app, Options& options) {
  CLI::App& verb = add_verb(app, options, Verb::kConvert, "convert",
                            "Make a profile of traces that LLVM XRay wrote to files");
  ConvertOptions& convert = options.convert;
  verb.add_option("logs", convert.logs, "xray-log.* files of one process")
      ->required()
      ->type_name("LOG");
  verb.add_option("-b,--binary", convert.binaries,
                  "The program that ran; then its instrumented shared objects")
      ->allow_extra_args(false)
      ->type_name("FILE");
  verb.add_option("--build-id", convert.build_id, "Refuse a program of another build id")
      ->type_name("HEX");
  verb.add_option("-o,--output", convert.output, "File to write to; - is standard output")
      ->required()
      ->type_name("FILE");
  const std::map<std::string, ConvertFormat> formats{{"prof", ConvertFormat::kProfile},
                                                     {"folded", ConvertFormat::kFolded},
                                                     {"trace", ConvertFormat::kTrace}};
  verb.add_option("--format", convert.format,
                  "prof for pprof, folded for flame graphs, trace for Perfetto [prof]")
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("FORMAT");
  verb.add_flag("--calls", convert.calls, "Numbers of calls in place of exclusive times");
  verb.add_flag("--force", convert.force, "Also where the program can't have written the traces");
}

void add_verbs(CLI::App& app, Options& options, Words& words) {
  CLI::App& start =
      add_verb(app, options, Verb::kStart, "start", "Begin a session and print its id");
  add_target(start, words);
  add_children(start, words);
  add_sampling(start, words);
  add_asking(start, options);
  CLI::App& stop =
      add_verb(app, options, Verb::kStop, "stop", "End a session and write its profiles");
  add_session(stop, options, kOfSession);
  add_asking(stop, options);
  add_session(
      add_verb(app, options, Verb::kDump, "dump", "Write a session's profiles so far; it goes on"),
      options, kOfResult);
  CLI::App& record =
      add_verb(app, options, Verb::kRecord, "record",
               "Start, wait, stop in one: for a time, until Ctrl-C, or for a command "
               "given behind --");
  add_target(record, words);
  add_children(record, words);
  add_sampling(record, words);
  add_asking(record, options);
  add_output(record, options, kOfSession);
  add_history_verbs(app, options, words);
  add_convert(app, options);
  add_verb(app, options, Verb::kList, "list", "Show the sessions");
  add_verb(app, options, Verb::kStatus, "status", "Show what profd does and what it costs");
  add_verb(app, options, Verb::kConfig, "config",
           "Show the configuration in force and where each value comes from");
  add_verb(app, options, Verb::kDoctor, "doctor",
           "Look at the host, the service and a process, and say what to do")
      .add_option("-p,--pid", words.pids, "Look at this process too")
      ->delimiter(',')
      ->type_name("PID");
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
  out.containers = words.containers;
  std::ranges::transform(words.units, std::back_inserter(out.units), full_unit_name);
  std::ranges::transform(words.cgroups, std::back_inserter(out.cgroups), parse_cgroup);
  if (auto read = read_each(words.pids, parse_pid, out.pids); !read) return read;
  return read_each(words.users, parse_user, out.uids);
}

// An option that was given at all counts, so that an empty value is an error and not the default.
Result<void> read_sampling(const CLI::App& verb, const Words& words, StartRequest& out) {
  if (verb.count("--event") != 0) out.event = words.event;
  out.functions = words.functions;
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

Result<void> read_point(const std::string& text, WallTime now, std::uint64_t& out_ms) {
  const auto time = parse_time_text(text, now);
  if (!time) return time.error();
  out_ms = static_cast<std::uint64_t>(time->time_since_epoch().count());
  return {};
}

Result<void> read_range(const CLI::App& verb, const Words& words, TimeRange& out) {
  const bool has_ends = verb.count("--since") + verb.count("--until") != 0;
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  if (verb.count("--last") != 0) {
    if (has_ends) return usage("--last excludes --since and --until", "leave out one of them");
    const auto span = parse_time_span(words.last);
    if (!span) return span.error();
    return read_point("-" + words.last, now, out.since_ms);
  }
  if (verb.count("--since") != 0) {
    if (auto read = read_point(words.since, now, out.since_ms); !read) return read;
  }
  if (verb.count("--until") != 0) {
    if (auto read = read_point(words.until, now, out.until_ms); !read) return read;
  }
  if (out.since_ms < out.until_ms) return {};
  return usage("the range ends before it begins", "give a --since that is before --until");
}

Result<void> read_history(const CLI::App& verb, const Words& words, Options& out) {
  const bool is_ps = out.verb == Verb::kPs;
  if (!is_ps) {
    if (auto read = read_range(verb, words, out.range); !read) return read;
  }
  if (out.verb == Verb::kExport) {
    const bool has_range =
        verb.count("--since") + verb.count("--until") + verb.count("--last") != 0;
    if (!has_range) return usage("no time is given", "give --last 10m, or --since and --until");
    return {};
  }
  out.limit = is_ps ? std::numeric_limits<std::uint64_t>::max() : HistoryRequest().limit;
  if (verb.count("--limit") == 0) return {};
  const auto limit = parse_limit(words.limit, is_ps ? out.limit : HistoryRequest::kMaxWindows);
  if (!limit) return limit.error();
  out.limit = *limit;
  return {};
}

bool is_of_history(Verb verb) {
  return verb == Verb::kExport || verb == Verb::kHistory || verb == Verb::kPs;
}

Result<void> check_command(const Options& options) {
  const bool has_command = !options.command.empty();
  const bool has_target = !options.request.target.empty();
  if (options.verb != Verb::kStart && options.verb != Verb::kRecord) return {};
  if (!has_target && !has_command) {
    return usage("no target is given",
                 options.verb == Verb::kStart
                     ? "name one: --pid, --comm, --unit, --container, --cgroup, --uid or --all"
                     : "name one (--pid, --all, ...) or a command: -- CMD");
  }
  if (has_target && has_command) {
    return usage("a target and a command exclude each other", "leave out one of them");
  }
  if (options.ask_runtime && options.request.target.pids.empty()) {
    return usage("--ask-runtime asks the processes of --pid, and none is given",
                 "name one: --pid PID");
  }
  return {};
}

// CLI11 has no word for it.
std::optional<Error> find_unknown_verb(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining();
  if (!app.get_subcommands().empty() || left.empty() || left.front().starts_with('-')) {
    return std::nullopt;
  }
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  const std::vector<std::string_view> known(verbs.begin(), verbs.end());
  const std::string nearest = did_you_mean(nearest_names(left.front(), known));
  return usage("no such verb: " + left.front(),
               nearest.empty() ? "'profctl --help' shows the verbs" : nearest);
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
    if (const auto no_verb = find_unknown_verb(app)) return *no_verb;
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
  if (is_of_history(read.verb)) {
    const CLI::App& verb = *app.get_subcommands().front();
    if (auto history = read_history(verb, words, read); !history) return history.error();
  }
  if (has_dashes && (read.verb != Verb::kRecord || read.command.empty())) {
    return usage("there is no command behind --", "'--' is for 'profctl record -- CMD ARGS'");
  }
  if (auto checked = check_command(read); !checked) return checked.error();
  return parsed;
}

}  // namespace profd
