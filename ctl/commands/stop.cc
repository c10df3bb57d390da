// stop and dump: the same but for what becomes of the session.

#include "ctl/commands/ask_runtime.h"
#include "ctl/commands/commands.h"
#include "ctl/commands/fetch_result.h"
#include "ctl/output/directory.h"

namespace profd {
namespace {

// While the session still runs, so that its profiles have the names. Who does not answer costs
// names, and not the profiles.
void ask_targets(Client& client, const Options& options, const Console& console) {
  const auto session = client.session(options.session);
  if (!session || session->state != "running") return;
  if (const auto asked = ask_for_perf_maps(session->target.pids); !asked) {
    (void)report(console, asked.error());
  }
}

using Finish = Result<ResultInfo> (Client::*)(const std::string& id);

int write_session(Client& client, Finish finish, const Options& options, const Console& console) {
  if (!is_valid_id(options.session)) {
    // The daemon has no such session either; but a path must not be made of it.
    return report(console,
                  fail(ErrorCode::kNotFound, "no session has the id \"" + options.session + "\"",
                       "'profctl list' shows the sessions"));
  }
  // A dump's own directory by default has the number of the dump, which only the daemon knows.
  const bool numbered = options.output.empty() && options.verb == Verb::kDump;
  std::string directory = options.output.empty() ? "profd-" + options.session : options.output;
  if (auto free = numbered ? Result<void>() : OutputDirectory::check(directory); !free) {
    return report(console, free.error());
  }
  if (options.ask_runtime) ask_targets(client, options, console);
  const auto result = (client.*finish)(options.session);
  if (!result) return report(console, result.error());
  if (numbered) directory = "profd-" + result->result;
  const auto fetched = fetch_result(client, *result, directory, options.json, console);
  return fetched ? static_cast<int>(kExitOk) : report(console, fetched.error());
}

}  // namespace

int run_stop(Client& client, const Options& options, const Console& console) {
  return write_session(client, &Client::stop, options, console);
}

int run_dump(Client& client, const Options& options, const Console& console) {
  return write_session(client, &Client::dump, options, console);
}

}  // namespace profd
