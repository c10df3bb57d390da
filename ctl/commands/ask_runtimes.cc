// Asks the JVMs of the history for their symbols, where the configuration has it, until a signal
// ends it: profd-ask.service.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/subcommand.h"
#include "ctl/process/ask_runtime.h"
#include "ctl/process/jvm_asker.h"
#include "formats/base/json_text.h"

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr auto kTurn = 60s;
// Shorter than those of record, which asks once: a process that does not answer holds up the rest.
constexpr AskLimits kAskLimits{.listen = 2s, .answer = 10s};

bool is_set(const ConfigInfo& config, std::string_view key) {
  const auto value = std::ranges::find(config.values, key, &ConfigInfo::Value::key);
  return value != config.values.end() && value->value == "true";
}

boost::json::value json_of(const std::vector<AskedJvm>& asked) {
  boost::json::array list;
  for (const AskedJvm& jvm : asked) {
    boost::json::object one;
    one.emplace("pid", jvm.pid);
    one.emplace("comm", jvm.comm);
    if (!jvm.answered()) one.emplace("error", jvm.answer.error().message);
    list.push_back(std::move(one));
  }
  boost::json::object answer;
  answer.emplace("asked", std::move(list));
  return answer;
}

class AskRuntimes final : public Subcommand {
 public:
  AskRuntimes(std::string name, std::string help) : Subcommand(std::move(name), std::move(help)) {}

  void add_options(OptionList& list) override {
    list.flag("--once", "Ask the JVMs of the last window now, whatever the configuration has",
              is_once_);
  }

  Result<int> run(Client& client, const Console& console) override {
    JvmAsker asker([](pid_t pid) { return ask_for_perf_map(pid, kAskLimits); });
    if (is_once_) return ask_once(client, console, asker);
    SignalWatch signals({SIGINT, SIGTERM, SIGHUP});
    SignalStop stop(signals);
    do {
      log(turn(client, asker, stop), console);
    } while (!stop.within(kTurn));
    return kExitOk;
  }

 private:
  // Remembers a signal that arrived between two requests.
  class SignalStop {
   public:
    explicit SignalStop(SignalWatch& signals) : signals_(signals) {}

    bool within(std::chrono::milliseconds limit) {
      if (!is_stopped_) is_stopped_ = signals_.wait(limit).has_value();
      return is_stopped_;
    }

   private:
    SignalWatch& signals_;
    bool is_stopped_ = false;
  };

  static Result<int> ask_once(Client& client, const Console& console, JvmAsker& asker) {
    const Result<WindowShares> window = client.last_window();
    if (!window) return window.error();
    const auto asked = asker.turn(*window, JvmAsker::Clock::now(), [] { return false; });
    if (console.json) {
      console.out << json_text(json_of(asked)) << "\n";
    } else {
      console.out << (asked.empty() ? "no JVM used over 5 % of a CPU in the last window"
                                    : text_of(asked))
                  << "\n";
    }
    return kExitOk;
  }

  // What there is to say of it.
  static std::string turn(Client& client, JvmAsker& asker, SignalStop& stop) {
    const Result<ConfigInfo> config = client.configuration();
    if (!config) return printable(config.error().message);
    if (!is_set(*config, "continuous.ask_runtime")) return "off: continuous.ask_runtime is false";
    if (!is_set(*config, "continuous.enabled")) return "off: continuous mode is off";
    const Result<WindowShares> window = client.last_window();
    if (!window) {
      const Error error = window.error();
      // There is none in the first minute.
      return error.code == ErrorCode::kNotFound ? std::string() : printable(error.message);
    }
    return text_of(
        asker.turn(*window, JvmAsker::Clock::now(), [&stop] { return stop.within(0ms); }));
  }

  // Each time that it changes.
  void log(std::string line, const Console& console) {
    if (line.empty() || line == logged_) return;
    console.err << "profctl: " << line << std::endl;
    logged_ = std::move(line);
  }

  bool is_once_ = false;
  std::string logged_;
};

}  // namespace

std::unique_ptr<Subcommand> make_ask_runtimes() {
  return std::make_unique<AskRuntimes>("ask-runtimes",
                                       "Ask busy JVMs for their symbols, for the history");
}

}  // namespace profd
