#include <ostream>

#include "ctl/commands/ask_runtime.h"
#include "ctl/commands/commands.h"

namespace profd {

int run_start(Client& client, const Options& options, const Console& console) {
  if (options.ask_runtime) {
    const auto asked = ask_for_perf_maps(options.request.target.pids);
    if (!asked) return report(console, asked.error());
  }
  const auto session = client.start(options.request);
  if (!session) return report(console, session.error());
  console.out << (options.json ? started_json(*session) : *session) << "\n";
  return kExitOk;
}

}  // namespace profd
