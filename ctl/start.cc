#include <ostream>

#include "ctl/commands.h"

namespace profd {

int run_start(Client& client, const Options& options, const Console& console) {
  const auto session = client.start(options.request);
  if (!session) return report(console, session.error());
  console.out << (options.json ? started_json(*session) : *session) << "\n";
  return kExitOk;
}

}  // namespace profd
