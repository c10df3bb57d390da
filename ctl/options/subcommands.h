// profctl's verbs, each with its options and what help says of them.

#pragma once

#include "ctl/options/arguments.h"
#include "ctl/options/options.h"

namespace CLI {
class App;
}

namespace profd {

// What is parsed by `app` later goes into `options` and `words`, which must outlive that.
void add_verbs(CLI::App& app, Options& options, OptionWords& words);

}  // namespace profd
