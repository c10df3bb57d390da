#include "ctl/commands/commands.h"

#include <algorithm>
#include <ostream>
#include <variant>

namespace profd {
namespace {

int run_verb(const Options& options, const Console& console) {
  Client client(options.socket);
  switch (options.verb) {
    case Verb::kStart:
      return run_start(client, options, console);
    case Verb::kStop:
      return run_stop(client, options, console);
    case Verb::kDump:
      return run_dump(client, options, console);
    case Verb::kList:
      return run_list(client, options, console);
    case Verb::kExport:
      return run_export(client, options, console);
    case Verb::kHistory:
      return run_history(client, options, console);
    case Verb::kConfig:
      return run_config(client, options, console);
    case Verb::kDoctor:
      return run_doctor(client, options, console);
    case Verb::kPs:
      return run_ps(client, options, console);
    case Verb::kStatus:
      return run_status(client, options, console);
    case Verb::kConvert:
      return run_convert(options, console);
    case Verb::kRecord:
      return run_record(client, options, console);
  }
  return kExitFailed;
}

// Known also of a command line that can't be read. What stands behind "--" is another program's.
bool asks_for_json(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

}  // namespace

int run_profctl(const std::vector<std::string>& arguments, const Console& console) {
  Console as_asked = console;
  as_asked.json_errors = asks_for_json(arguments);
  const auto parsed = parse_options(arguments);
  if (!parsed) return report(as_asked, parsed.error());
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    console.out << help->text;
    return kExitOk;
  }
  return run_verb(std::get<Options>(*parsed), as_asked);
}

}  // namespace profd
