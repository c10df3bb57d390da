#include <ostream>

#include "ctl/commands/sampling_cost.h"
#include "ctl/commands/subcommand.h"
#include "ctl/process/ask_runtime.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

class Start final : public Subcommand {
 public:
  Start() : Subcommand("start", "Start a session and print its id") {}

  void add_options(OptionList& list) override {
    add_session_request(list, request_, asks_for_stacks_);
    list.rule([this]() -> Result<void> {
      if (!request_.target.empty()) return {};
      return invalid_argument(
          "no target is given",
          "name one: --pid, --comm, --unit, --container, --cgroup, --uid or --all");
    });
    add_ask_runtime(list, request_.target, ask_runtime_);
  }

  Result<int> run(Client& client, const Console& console) override {
    if (ask_runtime_) {
      if (auto asked = ask_for_perf_maps(request_.target.pids); !asked) return asked.error();
    }
    warn_of_cost(request_, console);
    if (asks_for_stacks_) say_that_stacks_are_always_on(console);
    const auto session = client.start(request_);
    if (!session) return session.error();
    console.out << (console.json ? started_json(*session) : *session) << "\n";
    return kExitOk;
  }

 private:
  StartRequest request_;
  bool ask_runtime_ = false;
  bool asks_for_stacks_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_start() { return std::make_unique<Start>(); }

}  // namespace profd
