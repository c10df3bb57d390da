// Ships the windows of the history to the engines of a fleet, until a signal ends it.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include "ctl/client/signal_watch.h"
#include "ctl/commands/subcommand.h"
#include "ctl/ship/endpoint_files.h"
#include "ctl/ship/ship_config.h"
#include "ctl/ship/ship_service.h"
#include "ctl/ship/ship_status.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr const char* kShipStateDirectory = "/var/lib/profd-ship";

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return valid_utf8(name.data());
}

class Ship final : public Subcommand {
 public:
  Ship(std::string name, std::string help) : Subcommand(std::move(name), std::move(help)) {}

  void add_options(OptionList& list) override {
    list.option("--config", "FILE",
                "Endpoints and services, as TOML [" + std::string(kShipConfigFile) + "]",
                Reader::path(config_));
    list.option(
        "--state-dir", "DIR",
        "What was sent, a file for each endpoint [" + std::string(kShipStateDirectory) + "]",
        Reader::path(places_.state_directory));
    list.option(
        "--runtime-dir", "DIR",
        "What status shows, a file for each endpoint [" + std::string(kShipRuntimeDirectory) + "]",
        Reader::path(places_.runtime_directory));
    list.flag("--check-config", "Say what is wrong with the configuration, and send nothing",
              checks_only_);
    list.flag("--is-running",
              "Exit with 0 if a profctl ship runs and writes to --runtime-dir, else with 1",
              asks_only_);
  }

  Result<int> run(Client& client, const Console& console) override {
    if (asks_only_) return show_life(console);
    auto reading = load_ship_config(config_);
    if (!reading) return of_own_file(reading.error());
    if (checks_only_) {
      const auto missing = errors_of_files(reading->files);
      reading->errors.insert(reading->errors.end(), missing.begin(), missing.end());
    }
    if (!reading->errors.empty()) return report_all(console, reading->errors);
    if (checks_only_) {
      if (!console.json) console.out << config_ << " is valid\n";
      return kExitOk;
    }
    SplitOptions& split = reading->config.split;
    if (split.host.empty()) split.host = host_name();
    return ship(client, console, reading->config);
  }

 private:
  // For probes, as that of Kubernetes.
  [[nodiscard]] int show_life(const Console& console) const {
    const auto now = std::chrono::system_clock::now();
    const auto status = read_ship_status(places_.runtime_directory, now);
    const bool is_running = status && status->life == ShipStatus::Life::kRuns;
    if (!console.json) {
      console.out << (is_running ? "a profctl ship writes to " : "no profctl ship writes to ")
                  << places_.runtime_directory << "\n";
    }
    return is_running ? kExitOk : kExitFailed;
  }

  static int report_all(const Console& console, const std::vector<Error>& errors) {
    int code = kExitFailed;
    for (const Error& error : errors) code = report(console, of_own_file(error));
    return code;
  }

  // Both have a file of each endpoint, and any user can read those of the one. Each may be absent.
  [[nodiscard]] bool has_one_directory() const {
    const auto plain = [](const std::string& directory) {
      return (std::filesystem::path(directory) / "").lexically_normal();
    };
    std::error_code ignored;  // where one is absent
    return plain(places_.state_directory) == plain(places_.runtime_directory) ||
           std::filesystem::equivalent(places_.state_directory, places_.runtime_directory, ignored);
  }

  Result<int> ship(const Client& client, const Console& console, const ShipConfig& config) const {
    // It will have the secrets of endpoints in memory, which no other process of its user can read
    // then, and which no core dump has.
    (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (has_one_directory()) {
      return invalid_argument("--runtime-dir is the same as --state-dir",
                              "give two directories: any user can read what is in --runtime-dir");
    }
    // The threads of the endpoints have these signals blocked, too.
    const SignalWatch signals({SIGINT, SIGTERM, SIGHUP});
    std::mutex mutex;  // of the stream alone
    const auto log = [&console, &mutex](const std::string& line) {
      const std::scoped_lock lock(mutex);
      console.err << "profctl: " << printable(line) << std::endl;
    };
    const auto shipped = run_ship(config, places_, client, signals.fd(), log);
    if (!shipped) return of_own_file(shipped.error());
    return kExitOk;
  }

  std::string config_ = kShipConfigFile;
  ShipPlaces places_{.state_directory = kShipStateDirectory,
                     .runtime_directory = kShipRuntimeDirectory};
  bool checks_only_ = false;
  bool asks_only_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_ship() {
  return std::make_unique<Ship>("ship",
                                "Send the windows of the history to Pyroscope, Parca or OTLP");
}

}  // namespace profd
