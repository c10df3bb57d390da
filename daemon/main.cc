// profd: reads its options, makes its parts in the order in which they need each other, runs.

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <malloc.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "collectors/host/host_checks.h"
#include "collectors/jit/processes.h"
#include "collectors/parser/parser.h"
#include "collectors/sampling/sampler.h"
#include "collectors/sandbox/child.h"
#include "collectors/xray/follower.h"
#include "daemon/control/server.h"
#include "daemon/history/store.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/service/config.h"
#include "daemon/service/config_reader.h"
#include "daemon/service/environment.h"
#include "daemon/service/instance_lock.h"
#include "daemon/service/running_config.h"
#include "daemon/service/service_manager.h"
#include "daemon/service/socket_activation.h"
#include "daemon/service/watchdog.h"
#include "daemon/sessions/sample_source.h"
#include "daemon/sessions/sessions.h"
#include "daemon/storage/result_store.h"
#include "daemon/xray/apps.h"

namespace profd {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitHostLacksFeature = 6;

// Beside the control socket, where libprofd_xray looks for it.
constexpr const char* kXrayAppSocketName = "app.sock";

struct Options {
  std::string config_file;
  std::string socket;
  std::string state_dir;
  bool check = false;
  bool check_config = false;
  bool json = false;
};

void say(const Error& error) {
  std::fprintf(stderr, "profd: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "hint: %s\n", error.hint.c_str());
}

int exit_code_of(const Error& error) {
  return error.code == ErrorCode::kUnsupported ? kExitHostLacksFeature : kExitFailed;
}

void add_options(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string("profd " PROFD_VERSION));
  app.add_option("--config", options.config_file,
                 std::string("TOML file (default ") + kDefaultConfigFile + ", if it is there)")
      ->type_name("FILE");
  app.add_option("--socket", options.socket, "control socket (default /run/profd/profd.sock)")
      ->type_name("PATH");
  app.add_option("--state-dir", options.state_dir,
                 "where results are kept (default /var/lib/profd)")
      ->type_name("PATH");
  CLI::Option* const check =
      app.add_flag("--check", options.check, "say whether this host has what profd needs, and end");
  app.add_flag("--check-config", options.check_config, "say whether the files are valid, and end")
      ->excludes(check);
  app.add_flag("--json", options.json, "answer of --check in JSON")->needs(check);
}

// Relative paths are the caller's; the daemon has none.
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

// journald has the time of each line already.
void set_up_log(const std::string& level) {
  const bool is_journal = !take_variable("JOURNAL_STREAM").empty();
  spdlog::set_default_logger(spdlog::stderr_color_mt("profd"));
  spdlog::set_pattern(is_journal ? "%l %v" : "%Y-%m-%dT%H:%M:%S%z %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

// What the host, or a sandbox around us, does not give: each in a line with its way out.
bool host_is_fit() {
  const CheckReport report = check_host(read_host_facts());
  for (const CheckPoint& point : report) {
    if (point.state == CheckState::kFatal) say({.message = point.message, .hint = point.hint});
    if (point.state == CheckState::kFix) spdlog::warn("{} ({})", point.message, point.hint);
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

// Buffers that grow to some MiB for a moment (symbols, tables, profiles) go back to the system at
// once: glibc would keep up to 32 MiB of them for each thread.
void keep_memory_low() {
  constexpr int kLargeBytes = 128 * 1024;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
}

// Each mapped file that was sampled stays open until its session ends.
void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> make_directory(const std::filesystem::path& directory, mode_t mode) {
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) return {};
  std::filesystem::create_directories(directory, error);
  if (error) return fail_errno("could not make " + directory.string(), error.value());
  if (::chmod(directory.c_str(), mode) != 0)
    return fail_errno("could not own " + directory.string());
  return {};
}

// Both are locked, since two daemons that share either would harm each other.
Result<std::vector<InstanceLock>> lock_out_others(const Config& config) {
  std::vector<InstanceLock> locks;
  if (Result<void> made = make_directory(config.state_dir, S_IRWXU); !made) return made.error();
  const std::filesystem::path socket_dir = std::filesystem::path(config.socket).parent_path();
  if (Result<void> made = make_directory(socket_dir, 0755); !made) return made.error();
  for (const std::string& path : {config.socket + ".lock", config.state_dir + "/lock"}) {
    Result<InstanceLock> lock = InstanceLock::take(path);
    if (!lock) return lock.error();
    locks.push_back(std::move(*lock));
  }
  return locks;
}

// The one that the service manager listens on for us, if there is one.
UniqueFd take_control_socket() {
  for (PassedSocket& passed : take_passed_sockets()) return std::move(passed.fd);
  return {};
}

void take_over(const Config& config) {
  spdlog::set_level(spdlog::level::from_str(config.log_level));
}

void reload(ConfigInForce& config, Sessions& sessions) {
  const ConfigInForce::Reload reload = config.reload();
  for (const Error& error : reload.errors) {
    spdlog::error("the configuration stays as it was: {}", error.message);
  }
  for (const std::string& key : reload.need_restart) {
    spdlog::warn("{} has a new value, which takes a restart", key);
  }
  if (!reload.errors.empty()) return;
  take_over(config.config());
  sessions.configure(config);
  spdlog::info("read the configuration again: {} new values", reload.applied.size());
}

// What lives while profd serves. All is borrowed.
struct Serving {
  boost::asio::io_context& io;
  ServiceManager& manager;
  ConfigInForce& config;
  Sessions& sessions;
  ControlServer& server;
};

// False when sessions were lost at the end.
boost::asio::awaitable<bool> run_until_signal(Serving serving) {
  boost::asio::signal_set signals(serving.io, SIGTERM, SIGINT, SIGHUP);
  serving.server.start();
  serving.manager.ready();
  int signal = SIGHUP;
  while (signal == SIGHUP) {
    const auto [error, number] =
        co_await signals.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    signal = number;
    if (signal != SIGHUP) break;
    serving.manager.reloading();
    reload(serving.config, serving.sessions);
    serving.manager.ready();
  }
  spdlog::info("ending on signal {}", signal);
  serving.manager.stopping();
  serving.sessions.end_history_requests();
  co_await serving.server.stop();
  co_return co_await serving.sessions.shut_down();
}

std::string status_line(Sessions& sessions) {
  const StatusInfo status = sessions.status(Caller{});
  return std::to_string(status.ledger.sent) + " samples, " +
         std::to_string(sum_of(status.ledger.lost)) + " lost, " + std::to_string(status.sessions) +
         " sessions, " + std::to_string(status.continuous.windows) + " windows";
}

HealthProbes health_probes_of(Sessions& sessions) {
  return {.drains = [&sessions] { return sessions.drains(); },
          .ask_worker = [&sessions] { return sessions.worker_catches_up(); },
          .status = [&sessions] { return status_line(sessions); }};
}

Result<std::unique_ptr<ControlServer>> open_server(boost::asio::io_context& io, UniqueFd socket,
                                                   const std::string& path, Service& service) {
  if (!socket.valid()) return ControlServer::open(io, path, service);
  Result<HttpListener> listener = HttpListener::adopt(std::move(socket));
  if (!listener) return listener.error();
  return ControlServer::serve_on(io, std::move(*listener), service);
}

void watch_memory(Sampler& sampler, const ProcessKey& process,
                  std::span<const AddressRange> spans) {
  const auto watched = sampler.watch_unmaps(process, spans);
  static bool is_told = false;
  if (watched || std::exchange(is_told, true)) return;
  spdlog::warn("code that is unmapped keeps its name: {}", watched.error().message);
}

// Members are made top to bottom and go in reverse: the sink outlives the sampler.
Result<void> serve(ConfigInForce& in_force, ServiceManager& manager, UniqueFd socket) {
  const Config& config = in_force.config();
  Result<std::unique_ptr<Parser>> parser = Parser::start();
  if (!parser) return parser.error();
  Result<std::unique_ptr<JitProcesses>> jit =
      JitProcesses::start({.directories = config.jit.directories});
  if (!jit) return jit.error();
  Aggregator aggregator;
  Result<std::unique_ptr<Sampler>> sampler =
      Sampler::open({.ring_bytes = config.ring_bytes,
                     .unwinding = {.cache_directory = config.state_dir + "/unwind",
                                   .max_bytes = config.unwind_max_bytes}},
                    aggregator);
  if (!sampler) return sampler.error();
  (*jit)->send_rows_to([to = sampler->get()](const ProcessKey& process, std::uint32_t owner,
                                             std::uint32_t region, std::string_view table) {
    to->set_jit_code_rows(process, owner, region, table);
  });
  (*jit)->send_code_memory_to(
      [to = sampler->get()](const ProcessKey& process, std::span<const AddressRange> spans) {
        watch_memory(*to, process, spans);
      });
  const std::unique_ptr<SampleSource> source = make_sample_source(std::move(*sampler));
  Result<ResultStore> store = ResultStore::open(config.state_dir + "/results");
  if (!store) return store.error();
  // Profiles name their objects by absolute paths.
  Result<WindowStore> windows = WindowStore::open(std::filesystem::absolute(config.state_dir));
  if (!windows) return windows.error();
  boost::asio::io_context io(1);
  JitNaming naming(std::move(*jit));
  naming.run(io);
  Sessions sessions(io, *source, aggregator, std::move(*store), std::move(*parser));
  sessions.name_jit_code_by(naming);
  sessions.keep_windows(std::move(*windows), [] { return Parser::start(); });
  sessions.configure(in_force);
  auto apps =
      XrayApps::open(io, std::filesystem::path(config.socket).parent_path() / kXrayAppSocketName);
  if (!apps) return apps.error();
  sessions.record_calls_of(std::move(*apps));
  if (!config.xray.directory.empty()) {
    const auto watched = sessions.take_traces_from(config.xray.directory);
    if (!watched) return watched.error();
  }
  auto server = open_server(io, std::move(socket), config.socket, sessions);
  if (!server) return server.error();
  Watchdog watchdog(io, manager, health_probes_of(sessions));
  spdlog::info("profd " PROFD_VERSION " listens on {}", config.socket);
  bool all_stored = false;
  const Serving serving{io, manager, in_force, sessions, **server};
  boost::asio::co_spawn(io, run_until_signal(serving),
                        [&](const std::exception_ptr& problem, bool stored) {
                          if (problem) std::rethrow_exception(problem);
                          all_stored = stored;
                          watchdog.stop();
                          naming.stop();
                        });
  io.run();
  aggregator.look_up_code_in(nullptr);
  if (!all_stored) return fail(ErrorCode::kIo, "samples are lost, since they could not be stored");
  return {};
}

int serve_within_locks(ConfigInForce& config) {
  ServiceManager manager = ServiceManager::from_environment();
  UniqueFd socket = take_control_socket();
  const Result<std::vector<InstanceLock>> locks = lock_out_others(config.config());
  if (!locks) {
    say(locks.error());
    return kExitFailed;
  }
  if (const Result<void> served = serve(config, manager, std::move(socket)); !served) {
    say(served.error());
    return exit_code_of(served.error());
  }
  return 0;
}

int run(const Options& options) {
  if (options.check) return print_check(options.json);
  ConfigSource source = config_source(options);
  ConfigReading reading = read_config(source);
  for (const Error& error : reading.errors) say(error);
  if (!reading.errors.empty()) return kExitUsage;
  if (options.check_config) {
    std::printf("ok\n");
    return 0;
  }
  ConfigInForce config(std::move(source), std::move(reading));
  set_up_log(config.config().log_level);
  if (!host_is_fit()) return kExitHostLacksFeature;
  raise_open_files_limit();
  keep_memory_low();
  return serve_within_locks(config);
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kParserChild, profd::xray::kFollowerChild});
  CLI::App app{"Samples the stacks of every process; profctl tells it what for.", "profd"};
  profd::Options options;
  profd::add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    profd::say({.message = error.what(), .hint = "'profd --help' shows the options"});
    return profd::kExitUsage;
  }
  try {
    return profd::run(options);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "profd: %s\n", problem.what());
    return profd::kExitFailed;
  }
}
