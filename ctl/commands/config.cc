#include <ostream>

#include "ctl/commands/subcommand.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

void print_config(const ConfigInfo& config, const Console& console) {
  TableRows rows{{"KEY", "VALUE", "FROM", "AFTER RESTART"}};
  for (const ConfigInfo::Value& value : config.values) {
    rows.push_back({value.key, value.value, value.origin, value.after_restart.value_or("")});
  }
  print_table(std::move(rows), console.out);
  for (const std::string& problem : config.problems) {
    console.out << "the last reload failed: " << printable(problem) << "\n";
  }
}

}  // namespace

std::unique_ptr<Subcommand> make_config() {
  return std::make_unique<ShowSubcommand<ConfigInfo>>(
      "config", "Show the running configuration and where each value is set",
      &Client::configuration, print_config);
}

}  // namespace profd
