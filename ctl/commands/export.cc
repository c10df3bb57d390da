#include "ctl/commands/commands.h"
#include "ctl/commands/fetch_result.h"
#include "ctl/output/directory.h"

namespace profd {

int run_export(Client& client, const Options& options, const Console& console) {
  // Only profd knows the name of a directory that is not given.
  if (!options.output.empty()) {
    if (auto free = OutputDirectory::check(options.output); !free) {
      return report(console, free.error());
    }
  }
  const auto result =
      client.export_windows({.range = options.range, .target = options.request.target});
  if (!result) return report(console, result.error());
  const std::string directory = options.output.empty() ? "profd-" + result->result : options.output;
  const auto fetched = fetch_result(client, *result, directory, options.json, console);
  return fetched ? static_cast<int>(kExitOk) : report(console, fetched.error());
}

}  // namespace profd
