#include "ctl/options/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

#include "ctl/options/shown_argument.h"
#include "formats/base/errors.h"
#include "formats/base/nearest_name.h"
#include "formats/base/time_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr const char* kDefaultSocket = "/run/profd/profd.sock";
constexpr const char* kDefaultAdminSocket = "/run/profd/admin.sock";

constexpr const char* kExamples = R"(Examples:
  profctl start --pid 1234                       start to profile a process and its children; prints an id
  profctl stop ID -o out                         stop, and write out/COMM.PID.prof and out/session.json
  profctl record -d 10s -o out -a                profile the whole host for 10 s
  profctl record -o out -- ./server --port 80    profile a command from its first instruction to its end
  profctl record -u nginx -F 499 -d 30s -o out   profile a systemd unit, 499 samples per second
  profctl top                                    show live who uses the CPU, and in which functions
  profctl ps                                     show who used the CPU in the last minute
  profctl report --last 10m                      show which functions used the CPU
  profctl export --since 14:00 --until 14:10 -o out    write the profiles of a time in the past
  profctl status                                 show what profd does and what it costs

  profctl convert xray-log.app.* --binary ./app -o app.prof   turn LLVM XRay traces into a profile

  pprof -http=localhost:8080 out/nginx.812.prof  view a profile

)";

constexpr const char* kSharedFooter = "Also --json and --socket. 'profctl --help' has examples.";

constexpr const char* kFooter = R"(
Exit codes: 0 ok, 1 failed, 2 wrong command line, 3 profd is not running, 4 no such process or session,
5 not permitted, 6 the host lacks a feature. 'record -- CMD' exits with the status of CMD, or with 125 if profctl
failed, 126 if CMD can't be executed, 127 if CMD does not exist.)";

// CLI11 puts the usage first; most readers look for an example.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return (app->get_parent() == nullptr ? kExamples : "") +
           CLI::Formatter::make_help(app, std::move(name), mode);
  }
};

// As long as the longest path. No other argument comes near, and some are sent to the daemon.
constexpr std::size_t kMaxArgumentBytes = 4096;

Result<void> check_lengths(const std::vector<std::string>& arguments) {
  const auto is_long = [](const auto& text) { return text.size() > kMaxArgumentBytes; };
  const auto found = std::ranges::find_if(arguments, is_long);
  if (found == arguments.end()) return {};
  return invalid_argument("argument is too long: " + shown_argument(*found),
                          "at most " + std::to_string(kMaxArgumentBytes) + " bytes are accepted");
}

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// Makes "did you mean ...?" the hint where a known name is near.
void suggest_nearest(const std::string& name, const std::vector<std::string>& known, Error& error) {
  const std::string nearest = did_you_mean(nearest_names(name, views_of(known)));
  if (!nearest.empty()) error.hint = nearest;
}

// "--since 14:00 --until 14:10" for "14:00..14:10". Empty: the text is no such range.
std::string options_of_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return {};
  const std::string since = text.substr(0, dots);
  const std::string until = text.substr(dots + 2);
  if (time_form_of(since) != TimeForm::kPoint) return {};
  std::string options = "--since " + quoted_time(since);
  if (until.empty()) return options;
  if (time_form_of(until) != TimeForm::kPoint) return {};
  return options + " --until " + quoted_time(until);
}

// The options of the subcommand that are for this time. Empty: it is none, or there is no option.
std::string options_of_time(const CLI::App& app, const std::string& text) {
  const TimeForm form = time_form_of(text);
  if (app.get_option_no_throw("--since") == nullptr) {
    const bool has_duration = app.get_option_no_throw("--duration") != nullptr;
    return form == TimeForm::kSpan && has_duration ? "--duration " + quoted_time(text) : "";
  }
  if (form == TimeForm::kSpan) return "--last " + quoted_time(text);
  return form == TimeForm::kPoint ? "--since " + quoted_time(text) : options_of_range(text);
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The same of arguments that are too many. Without quotes, "5m ago" is two of them, of which the
// first may have become an operand.
std::string options_of_times(const CLI::App& app, const std::vector<std::string>& unexpected) {
  std::vector<std::string> all;
  for (const CLI::Option* each : app.get_options()) {
    if (!each->get_positional()) continue;
    all.insert(all.end(), each->results().begin(), each->results().end());
  }
  all.insert(all.end(), unexpected.begin(), unexpected.end());
  for (const std::string& text :
       {joined_words(all), joined_words(unexpected), unexpected.front()}) {
    std::string options = options_of_time(app, text);
    if (!options.empty()) return options;
  }
  return {};
}

// Of a file that follows the source, or both sources. Empty: the argument is no file, or the
// subcommand takes no source.
std::string hint_of_second_source(const CLI::App& app, const std::string& argument) {
  const bool is_diff = app.get_option_no_throw("BASE") != nullptr;
  if (!is_diff && app.get_option_no_throw("SOURCE") == nullptr) return {};
  if (::access(argument.c_str(), F_OK) != 0) return {};
  return std::string(is_diff ? "two sources are" : "one source is") +
         " taken; 'profctl convert' merges several into one: convert A B -o all.pb.gz";
}

constexpr const char* kEmptyHint = "is a variable of the shell not set?";

Error empty_argument(const std::string& option) {
  return invalid_argument("the argument of " + option + " is empty", kEmptyHint);
}

Result<void> check(const std::string& argument, bool is_path) {
  if (is_path && argument.empty()) return invalid_argument("a path is empty", kEmptyHint);
  if (is_path || is_valid_utf8(argument)) return {};
  return invalid_argument("argument is not valid UTF-8: " + shown_argument(argument));
}

}  // namespace

void OptionList::flag(const std::string& names, const std::string& help, bool& out, bool value) {
  app_.add_flag_callback(
          names, [&out, value] { out = value; }, help)
      ->group(heading_);
}

void OptionList::option(const std::string& names, const std::string& argument,
                        const std::string& help, Reader reader) {
  const bool is_repeatable = reader.is_repeatable_;
  const std::string long_name = names.substr(names.find("--"));
  CLI::Option* const added = app_.add_option(names, callback(std::move(reader), long_name), help);
  added->type_name(argument)->group(heading_);
  // Each time with one argument, so that an operand may follow.
  if (is_repeatable) added->expected(1, -1)->allow_extra_args(false);
}

void OptionList::operand(const std::string& name, const std::string& help, Reader reader) {
  const bool is_repeatable = reader.is_repeatable_;
  CLI::Option* const added = app_.add_option(name, callback(std::move(reader)), help);
  added->required();
  if (is_repeatable) added->expected(1, -1)->allow_extra_args();
}

void OptionList::optional_operand(const std::string& name, const std::string& help, Reader reader) {
  app_.add_option(name, callback(std::move(reader)), help);
}

// CLI11 calls this before it has found every error of its own, and before --help counts. So an
// error of a reader is kept until CLI11 is done.
std::function<bool(const CLI::results_t&)> OptionList::callback(Reader reader,
                                                                const std::string& option) {
  return [this, reader = std::move(reader), option](const CLI::results_t& arguments) {
    for (const std::string& argument : arguments) {
      const Result<void> valid = check(argument, reader.is_path_);
      const Result<void> done = valid ? reader.read_(argument) : valid;
      if (done || invalid_) continue;
      invalid_ = argument.empty() && !option.empty() ? empty_argument(option) : done.error();
    }
    return true;
  };
}

void OptionList::command(std::vector<std::string>& out) {
  command_ = &out;
  app_.footer("A command comes last: -- COMMAND [ARG ...]\n" + std::string(kSharedFooter));
}

bool OptionList::given(const std::string& name) const { return app_.count(name) != 0; }

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>("profctl controls profd, the profiler of this host.",
                                      "profctl")) {
  const auto formatter = std::make_shared<ExamplesFirst>();
  formatter->label("Positionals", "Arguments");
  formatter->label("REQUIRED", "(required)");
  app_->formatter(formatter);
  app_->set_version_flag("--version", "profctl " PROFD_VERSION);
  app_->add_flag("--json", parsed_.json, "Print JSON, in one line; errors too");
  app_->add_option("--socket", parsed_.socket, "Control socket of profd")
      ->envname("PROFD_SOCKET")
      ->default_val(kDefaultSocket)
      ->type_name("PATH");
  app_->require_subcommand(0, 1);  // none is an error too, with a clearer text than CLI11's
  app_->footer(kFooter);
}

CommandLine::~CommandLine() = default;

OptionList& CommandLine::add_subcommand(const std::string& name, const std::string& help) {
  CLI::App* const added = app_->add_subcommand(name, help);
  added->fallthrough();  // --json and --socket may follow the subcommand too
  added->footer(kSharedFooter);
  return subcommands_.try_emplace(name, *added).first->second;
}

Result<CommandLine::Parsed> CommandLine::parse(std::vector<std::string> arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  const bool has_dashes = dashes != arguments.end();
  const auto behind_dashes = has_dashes ? dashes + 1 : dashes;
  std::vector<std::string> command(behind_dashes, arguments.end());
  arguments.erase(dashes, arguments.end());
  if (auto checked = check_lengths(arguments); !checked) return checked.error();
  if (auto turned = turn_help_to_option(arguments); !turned) return turned.error();
  std::ranges::reverse(arguments);  // CLI11 takes a vector in reverse order
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Parsed{.help = app_->help()};
  } catch (const CLI::CallForVersion& version) {
    return Parsed{.help = std::string(version.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    return unexpected_argument();
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();  // "--pid: 1 required PID missing"
    return invalid_use(text.substr(0, text.find(':')) + " takes one argument");
  } catch (const CLI::ParseError& error) {
    return invalid_use(error.what());
  }
  return finish(has_dashes, std::move(command));
}

// Makes "help SUBCOMMAND" "SUBCOMMAND --help". Only --json may precede it.
Result<void> CommandLine::turn_help_to_option(std::vector<std::string>& arguments) const {
  auto name = std::ranges::find_if(arguments, [](const auto& text) { return text != "--json"; });
  if (name == arguments.end() || *name != "help") return {};
  name = arguments.erase(name);
  const bool is_known =
      name == arguments.end() || name->starts_with('-') || subcommands_.contains(*name);
  if (!is_known) return unknown_subcommand(*name);
  arguments.emplace_back("--help");
  return {};
}

// CLI11 has accepted every argument.
Result<CommandLine::Parsed> CommandLine::finish(bool has_dashes, std::vector<std::string> command) {
  parsed_.subcommand = named_subcommand();
  if (parsed_.subcommand.empty()) {
    return invalid_argument("no subcommand is given", "'profctl --help' lists the subcommands");
  }
  OptionList& list = subcommands_.at(parsed_.subcommand);
  if (list.invalid_) return *list.invalid_;
  if (has_dashes && list.command_ == nullptr) {
    return invalid_argument(parsed_.subcommand + ": no command after -- is accepted",
                            "'--' is for 'profctl record -- CMD ARGS'");
  }
  if (has_dashes && command.empty()) {
    return invalid_argument(parsed_.subcommand + ": no command follows --",
                            "give one: 'profctl record -- CMD ARGS'");
  }
  if (app_->count("--socket") == 0) parsed_.admin_socket = kDefaultAdminSocket;
  if (has_dashes) *list.command_ = std::move(command);
  for (const auto& check : list.rules_) {
    if (auto checked = check(); !checked) return checked.error();
  }
  return parsed_;
}

std::string CommandLine::named_subcommand() const {
  const std::vector<CLI::App*> named = app_->get_subcommands();
  return named.empty() ? std::string() : named.front()->get_name();
}

Error CommandLine::invalid_use(const std::string& what) const {
  const std::string name = named_subcommand();
  return invalid_argument(
      (name.empty() ? "" : name + ": ") + what,
      "'profctl " + (name.empty() ? "" : name + " ") + "--help' shows what it takes");
}

Error CommandLine::unexpected_argument() const {
  const std::vector<std::string> unexpected = app_->remaining(true);
  const auto is_option = [](const std::string& text) { return text.size() > 1 && text[0] == '-'; };
  const auto option = std::ranges::find_if(unexpected, is_option);
  if (named_subcommand().empty() && option != unexpected.begin()) {
    return unknown_subcommand(unexpected.front());
  }
  if (option != unexpected.end()) return unknown_option(option->substr(0, option->find('=')));
  return unexpected_operand(unexpected);
}

// Offers the option that the first argument may be meant for: a time, a pid, a command name or a
// command.
Error CommandLine::unexpected_operand(const std::vector<std::string>& arguments) const {
  const std::string& argument = arguments.front();
  Error error = invalid_use("unexpected argument " + shown_argument(argument));
  const CLI::App& app = *app_->get_subcommand(named_subcommand());
  if (const std::string time = options_of_times(app, arguments); !time.empty()) {
    error.hint = "did you mean " + shortened(time) + "?";
    return error;
  }
  if (std::string hint = hint_of_second_source(app, argument); !hint.empty()) {
    error.hint = std::move(hint);
    return error;
  }
  const bool is_number = argument.find_first_not_of("0123456789,") == std::string::npos;
  const std::string option = is_number ? "--pid" : "--comm";
  if (argument.empty() || app.get_option_no_throw(option) == nullptr) return error;
  const std::string shown = shortened(argument);
  error.hint = "did you mean " + option + " " + shown;
  const bool runs_command = subcommands_.at(named_subcommand()).command_ != nullptr;
  error.hint += runs_command && !is_number ? ", or a command: -- " + shown + "?" : "?";
  return error;
}

Error CommandLine::unknown_subcommand(const std::string& name) const {
  std::vector<std::string> known;
  for (const CLI::App* app : app_->get_subcommands({})) known.push_back(app->get_name());
  Error error = invalid_argument("unknown subcommand " + shown_argument(name),
                                 "'profctl --help' lists the subcommands");
  suggest_nearest(name, known, error);
  return error;
}

// Names the subcommands that have the option, and the nearest option of the subcommand that is
// used.
Error CommandLine::unknown_option(const std::string& option) const {
  std::vector<std::string> others;
  for (const CLI::App* app : app_->get_subcommands({})) {
    if (app->get_option_no_throw(option) != nullptr) others.push_back(app->get_name());
  }
  const char* const has = others.size() == 1 ? " has it" : " have it";
  Error error =
      invalid_use("unknown option " + shortened(option) +
                  (others.empty() ? "" : "; " + enumeration(views_of(others), " and ") + has));
  std::vector<std::string> known;
  const std::string name = named_subcommand();
  const CLI::App& app = name.empty() ? *app_ : *app_->get_subcommand(name);
  for (const CLI::Option* each : app.get_options()) known.push_back(each->get_name());
  suggest_nearest(option, known, error);
  return error;
}

}  // namespace profd
