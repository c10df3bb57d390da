#include "ctl/commands/fetch_result.h"
#include "ctl/commands/subcommand.h"
#include "ctl/process/ask_runtime.h"

namespace profd {
namespace {

class Stop final : public Subcommand {
 public:
  Stop() : Subcommand("stop", "Stop a session and write its profiles") {}

  void add_options(OptionList& list) override {
    list.operand("SESSION", "The id that 'profctl start' printed", session_);
    add_output(list, "./profd-SESSION", output_);
    add_written_list(list, written_);
    list.flag("--ask-runtime",
              "Ask the JVMs that the session was started with for the symbols of their JIT code",
              ask_runtime_);
  }

  Result<int> run(Client& client, const Console& console) override {
    if (auto checked = check_session_id(session_); !checked) return checked.error();
    use_default_directory(session_, output_);
    if (auto checked = check_output(output_); !checked) return checked.error();
    if (ask_runtime_) ask_targets(client, console);
    const auto result = client.stop(session_);
    if (!result) return result.error();
    return fetch_result(client, *result, output_, written_, console);
  }

 private:
  // Asks while the session runs, so that its profiles get the symbols. A JVM that does not answer
  // costs symbols, not the profiles.
  void ask_targets(Client& client, const Console& console) {
    const auto session = client.session(session_);
    if (!session || session->state != "running") return;
    if (const auto asked = ask_for_perf_maps(session->target.pids); !asked) {
      (void)report(console, asked.error());
    }
  }

  std::string session_;
  Destination output_;
  WrittenList written_;
  bool ask_runtime_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_stop() { return std::make_unique<Stop>(); }

}  // namespace profd
