// profctl's verbs. Each returns the process's exit code, and has said on the console what there is
// to say.

#pragma once

#include <string>
#include <vector>

#include "ctl/client/client.h"
#include "ctl/options/options.h"
#include "ctl/output/console.h"

namespace profd {

// All of profctl: reads the command line (without the program's name) and runs its verb.
[[nodiscard]] int run_profctl(const std::vector<std::string>& arguments, const Console& console);

[[nodiscard]] int run_start(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_stop(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_dump(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_list(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_export(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_history(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_ps(Client& client, const Options& options, const Console& console);
[[nodiscard]] int run_status(Client& client, const Options& options, const Console& console);

[[nodiscard]] int run_config(Client& client, const Options& options, const Console& console);

// Files alone: profd need not run.
[[nodiscard]] int run_convert(const Options& options, const Console& console);

// kExitUnsupported: profd can't run here; kExitFailed: something should be mended.
[[nodiscard]] int run_doctor(Client& client, const Options& options, const Console& console);

// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD of the calling thread meanwhile, and takes them as its
// own.
[[nodiscard]] int run_record(Client& client, const Options& options, const Console& console);

}  // namespace profd
