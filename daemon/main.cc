// profd: reads its options and its configuration, checks the host, and runs the daemon.

#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "collectors/door/app_door.h"
#include "collectors/door/closer.h"
#include "collectors/door/door.h"
#include "collectors/host/host_checks.h"
#include "collectors/host/thread_priority.h"
#include "collectors/parser/parser.h"
#include "collectors/sandbox/child.h"
#include "collectors/symbolizer/symbolizer.h"
#include "collectors/xray/follower.h"
#include "daemon/base/log.h"
#include "daemon/daemon.h"
#include "daemon/service/config.h"
#include "daemon/service/config_reader.h"
#include "daemon/service/instance_lock.h"
#include "daemon/service/running_config.h"
#include "daemon/service/service_manager.h"
#include "daemon/storage/file_io.h"

namespace profd {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitHostLacksFeature = 6;

struct Options {
  std::string config_file;
  std::string socket;
  std::string state_dir;
  bool check = false;
  bool check_config = false;
  bool json = false;
};

void print_error(const Error& error) {
  std::fprintf(stderr, "profd: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "hint: %s\n", error.hint.c_str());
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::kUnsupported ? kExitHostLacksFeature : kExitFailed;
}

void add_options(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string("profd " PROFD_VERSION));
  app.add_option("--config", options.config_file,
                 std::string("TOML file (default ") + kDefaultConfigFile + ", if it exists)")
      ->type_name("FILE");
  app.add_option("--socket", options.socket, "control socket (default /run/profd/profd.sock)")
      ->type_name("PATH");
  app.add_option("--state-dir", options.state_dir, "directory of results (default /var/lib/profd)")
      ->type_name("PATH");
  CLI::Option* const check =
      app.add_flag("--check", options.check, "check whether this host has what profd needs, exit");
  app.add_flag("--check-config", options.check_config, "check the configuration files, exit")
      ->excludes(check);
  app.add_flag("--json", options.json, "print the answer of --check as JSON")->needs(check);
}

Error unexpected(const std::string& argument) {
  const bool is_option = argument.starts_with('-');
  return {.code = ErrorCode::kInvalidArgument,
          .message = (is_option ? "unknown option " : "unexpected argument ") + argument,
          .hint = "'profd --help' shows the options; profctl has the subcommands"};
}

// Relative paths are relative to the caller's directory; the daemon's own is /.
void add_path(const std::string& key, const std::string& path, ConfigSource& source) {
  if (!path.empty()) source.command_line[key] = std::filesystem::absolute(path);
}

ConfigSource config_source(const Options& options) {
  ConfigSource source;
  if (!options.config_file.empty()) {
    source.file = std::filesystem::absolute(options.config_file);
    source.file_was_named = true;
  }
  add_path("socket", options.socket, source);
  add_path("state_dir", options.state_dir, source);
  return source;
}

// journald adds the time to each line.
void set_up_log(const std::string& level) {
  const bool is_journal = !take_variable("JOURNAL_STREAM").empty();
  log::set_up(level, !is_journal);
}

// False where the host, or a sandbox around the daemon, lacks what profd can't do without.
bool host_is_fit() {
  const CheckReport report = check_host(read_host_facts());
  for (const CheckPoint& point : report) {
    if (point.state == CheckState::kFatal)
      print_error({.message = point.message, .hint = point.hint});
    if (point.state == CheckState::kFix) log::warn("{} ({})", point.message, point.hint);
  }
  return worst_state(report) != CheckState::kFatal;
}

int print_check(bool as_json) {
  const CheckReport report = check_host(read_host_facts());
  if (as_json) std::printf("%s\n", to_json(report).c_str());
  for (const CheckPoint& point : report) {
    if (as_json) break;
    const std::string state(state_name(point.state));
    std::printf("%-8s %-16s %s\n", state.c_str(), point.name.c_str(), point.message.c_str());
    if (!point.hint.empty()) std::printf("%-8s %-16s %s\n", "", "", point.hint.c_str());
  }
  return worst_state(report) == CheckState::kFatal ? kExitHostLacksFeature : 0;
}

// Each mapped file that was sampled stays open until its session ends.
void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// On the socket and on the state directory, since two daemons that share either would break each
// other.
Result<std::vector<UniqueFd>> take_locks(const Config& config) {
  std::vector<UniqueFd> locks;
  if (auto made = make_directory(config.state_dir, S_IRWXU); !made) return made.error();
  const std::filesystem::path socket_dir = std::filesystem::path(config.socket).parent_path();
  if (auto made = make_directory(socket_dir, 0755); !made) return made.error();
  for (const std::string& path : {config.socket + ".lock", config.state_dir + "/lock"}) {
    Result<UniqueFd> lock = take_instance_lock(path);
    if (!lock) return lock.error();
    locks.push_back(std::move(*lock));
  }
  return locks;
}

// The one that the service manager listens on, if there is one.
UniqueFd take_control_socket() {
  std::vector<UniqueFd> passed = take_passed_sockets();
  return passed.empty() ? UniqueFd() : std::move(passed.front());
}

Result<void> serve(RunningConfig& config) {
  ServiceManager manager = ServiceManager::from_environment();
  UniqueFd socket = take_control_socket();
  const Result<std::vector<UniqueFd>> locks = take_locks(config.config());
  if (!locks) return locks.error();
  return run_daemon(config, manager, std::move(socket));
}

int run(const Options& options) {
  if (options.check) return print_check(options.json);
  ConfigSource source = config_source(options);
  ConfigReading reading = read_config(source);
  for (const Error& error : reading.errors) print_error(error);
  if (!reading.errors.empty()) return kExitUsage;
  if (options.check_config) {
    std::printf("ok\n");
    return 0;
  }
  RunningConfig config(std::move(source), std::move(reading));
  set_up_log(config.config().log_level);
  if (!host_is_fit()) return kExitHostLacksFeature;
  raise_priority();
  raise_open_files_limit();
  const Result<void> served = serve(config);
  if (served) return 0;
  print_error(served.error());
  return exit_code_of(served.error());
}

}  // namespace
}  // namespace profd

// The settings of jemalloc (daemon/base/allocator.h), by the name that it knows. Children have
// more of their own (collectors/sandbox/spawn.cc).
extern "C" {
extern const char* const kMallocConf __asm__("malloc_conf");
const char* const kMallocConf =
    "narenas:2,dirty_decay_ms:2000,muzzy_decay_ms:0,tcache_max:1024,tcache_nslots_small_max:64";
}

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(
      argc, argv,
      {profd::kParserChild, profd::kUserParserChild, profd::kSymbolizerChild,
       profd::kUserSymbolizerChild, profd::xray::kFollowerChild, profd::door::kDoorChild,
       profd::door::kAppDoorChild, profd::door::kCloserChild});
  CLI::App app{"Samples the stacks of every process. profctl controls it.", "profd"};
  profd::Options options;
  profd::add_options(app, options);
  try {
    app.parse(argc, argv);
    return profd::run(options);
  } catch (const CLI::ExtrasError&) {
    profd::print_error(profd::unexpected(app.remaining().front()));
    return profd::kExitUsage;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    profd::print_error({.message = error.what(), .hint = "'profd --help' shows the options"});
    return profd::kExitUsage;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "profd: %s\n", problem.what());
    return profd::kExitFailed;
  }
}
