#include "ctl/options/subcommands.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace profd {
namespace {

// Directories that are written to by default, as help shows them.
constexpr const char* kOfSession = "./profd-ID";
constexpr const char* kOfResult = "./profd-RESULT, which is printed";

// An option of the target, given as often as there are terms.
CLI::Option* add_term(CLI::App& verb, const char* name, std::vector<std::string>& words,
                      const char* what) {
  return verb.add_option(name, words, what)->allow_extra_args(false)->group("Target");
}

// `-c` is --period's where there is one.
void add_owners(CLI::App& verb, OptionWords& words) {
  add_term(verb, "-u,--unit", words.units, "Processes of a systemd unit; nginx is nginx.service")
      ->type_name("UNIT");
  add_term(verb, "-c,--container", words.containers,
           "Processes of a container: its id or the beginning")
      ->type_name("ID");
}

void add_target(CLI::App& verb, OptionWords& words) {
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

void add_children(CLI::App& verb, OptionWords& words) {
  verb.add_flag("--no-children", words.no_children, "Leave out the children of --pid")
      ->group("Target");
}

void add_sampling(CLI::App& verb, OptionWords& words) {
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

void add_range(CLI::App& verb, OptionWords& words) {
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

void add_history_verbs(CLI::App& app, Options& options, OptionWords& words) {
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

ConvertFormat format_of(const std::string& word) {
  if (word == "prof") return ConvertFormat::kProfile;
  if (word == "folded") return ConvertFormat::kFolded;
  if (word == "trace") return ConvertFormat::kTrace;
  throw CLI::ValidationError("--format", "is prof, folded or trace, not " + word);
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
  verb.add_option_function<std::string>(
          "--format", [&convert](const std::string& word) { convert.format = format_of(word); },
          "prof for pprof, folded for flame graphs, trace for Perfetto [prof]")
      ->type_name("FORMAT");
  verb.add_flag("--calls", convert.calls, "Numbers of calls in place of exclusive times");
  verb.add_flag("--force", convert.force, "Also where the program can't have written the traces");
}

}  // namespace

void add_verbs(CLI::App& app, Options& options, OptionWords& words) {
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

}  // namespace profd
