#include <ostream>
#include <string>
#include <vector>

#include "ctl/commands/commands.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

void print_config(const ConfigInfo& config, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"KEY", "VALUE", "FROM", "AFTER RESTART"}};
  for (const ConfigInfo::Value& value : config.values) {
    rows.push_back({printable(value.key), printable(value.value), printable(value.origin),
                    printable(value.after_restart.value_or(""))});
  }
  print_table(rows, out);
  for (const std::string& problem : config.problems) {
    out << "not in force: " << printable(problem) << "\n";
  }
}

}  // namespace

int run_config(Client& client, const Options& options, const Console& console) {
  const auto config = client.configuration();
  if (!config) return report(console, config.error());
  if (options.json) {
    console.out << to_json(*config) << "\n";
  } else {
    print_config(*config, console.out);
  }
  return kExitOk;
}

}  // namespace profd
