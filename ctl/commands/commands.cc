#include "ctl/commands/commands.h"

#include <algorithm>
#include <ostream>

#include "ctl/commands/subcommand.h"

namespace profd {
namespace {

// In the order of the help.
std::vector<std::unique_ptr<Subcommand>> make_subcommands() {
  std::vector<std::unique_ptr<Subcommand>> subcommands;
  for (const auto make :
       {make_start,  make_stop,    make_dump,   make_record,      make_top,  make_history,
        make_ps,     make_report,  make_flame,  make_diff,        make_web,  make_view,
        make_export, make_convert, make_ship,   make_debuginfo,   make_list, make_events,
        make_status, make_config,  make_doctor, make_ask_runtimes}) {
    subcommands.push_back(make());
  }
  return subcommands;
}

// --json counts for errors of the command line too. After "--" it belongs to another program.
bool has_json_flag(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

// Where a wrong command line must not look like a status of the command.
bool has_command_of_record(const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  const bool has_command = arguments.end() - dashes > 1;
  return has_command && std::find(arguments.begin(), dashes, "record") != dashes;
}

}  // namespace

int run_profctl(const std::vector<std::string>& arguments, const Console& console) {
  const auto subcommands = make_subcommands();
  CommandLine line;
  for (const auto& subcommand : subcommands) {
    subcommand->add_options(line.add_subcommand(subcommand->name(), subcommand->help()));
  }
  Console chosen = console;
  chosen.json = has_json_flag(arguments);
  const auto parsed = line.parse(arguments);
  if (!parsed) {
    const int code = report(chosen, parsed.error());
    return has_command_of_record(arguments) ? kExitRecordFailed : code;
  }
  if (parsed->help) {
    console.out << *parsed->help;
    return kExitOk;
  }
  chosen.json = parsed->json;
  Client client(parsed->socket, {}, parsed->admin_socket);
  const auto subcommand =
      std::ranges::find(subcommands, parsed->subcommand, [](const auto& s) { return s->name(); });
  const Result<int> code = (*subcommand)->run(client, chosen);
  return code ? *code : report(chosen, code.error());
}

}  // namespace profd
