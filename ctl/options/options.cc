#include "ctl/options/options.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "ctl/options/arguments.h"
#include "ctl/options/subcommands.h"
#include "formats/base/nearest_name.h"

namespace profd {
namespace {

constexpr const char* kDefaultSocket = "/run/profd/profd.sock";

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
  OptionWords words;
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
  if (auto done = read_words(*app.get_subcommands().front(), words, read); !done) {
    return done.error();
  }
  if (has_dashes && (read.verb != Verb::kRecord || read.command.empty())) {
    return usage("there is no command behind --", "'--' is for 'profctl record -- CMD ARGS'");
  }
  if (auto checked = check_command(read); !checked) return checked.error();
  return parsed;
}

}  // namespace profd
