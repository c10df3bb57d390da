// profd: reads its options, makes its parts in the order in which they need each other, runs.

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
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
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "collectors/parser/parser.h"
#include "collectors/sampling/host_checks.h"
#include "collectors/sampling/sampler.h"
#include "daemon/aggregator.h"
#include "daemon/config.h"
#include "daemon/control_server.h"
#include "daemon/instance_lock.h"
#include "daemon/result_store.h"
#include "daemon/sample_source.h"
#include "daemon/sessions.h"

namespace profd {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitHostLacksFeature = 6;

struct Options {
  std::string config_file;
  std::string socket;
  std::string state_dir;
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
  app.add_option("--config", options.config_file, "TOML file")->type_name("FILE");
  app.add_option("--socket", options.socket, "control socket (default /run/profd/profd.sock)")
      ->type_name("PATH");
  app.add_option("--state-dir", options.state_dir,
                 "where results are kept (default /var/lib/profd)")
      ->type_name("PATH");
}

// The command line has the last word.
Result<Config> configure(const Options& options) {
  Result<Config> config = Config{};
  if (!options.config_file.empty()) config = load_config(options.config_file);
  if (!config) return config;
  if (!options.socket.empty()) config->socket = options.socket;
  if (!options.state_dir.empty()) config->state_dir = options.state_dir;
  return config;
}

void set_up_log(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("profd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S%z %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

bool host_is_fit() {
  const std::vector<Error> missing = missing_features(read_host_facts());
  for (const Error& feature : missing) say(feature);
  return missing.empty();
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

// False when sessions were lost at the end.
boost::asio::awaitable<bool> run_until_signal(boost::asio::io_context& io, ControlServer& server,
                                              Sessions& sessions) {
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  server.start();
  const auto [error, signal] =
      co_await signals.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  spdlog::info("ending on signal {}", signal);
  co_await server.stop();
  co_return co_await sessions.shut_down();
}

// Members are made top to bottom and go in reverse: the sink outlives the sampler.
Result<void> serve(const Config& config) {
  Result<std::unique_ptr<Parser>> parser = Parser::start();
  if (!parser) return parser.error();
  Aggregator aggregator;
  Result<std::unique_ptr<Sampler>> sampler =
      Sampler::open({.ring_bytes = config.ring_bytes,
                     .unwinding = {.cache_directory = config.state_dir + "/unwind",
                                   .max_bytes = config.unwind_max_bytes}},
                    aggregator);
  if (!sampler) return sampler.error();
  const std::unique_ptr<SampleSource> source = make_sample_source(std::move(*sampler));
  Result<ResultStore> store = ResultStore::open(config.state_dir + "/results");
  if (!store) return store.error();
  boost::asio::io_context io(1);
  Sessions sessions(io, *source, aggregator, std::move(*store), std::move(*parser),
                    {.session_max_bytes = config.session_max_bytes});
  Result<std::unique_ptr<ControlServer>> server = ControlServer::open(io, config.socket, sessions);
  if (!server) return server.error();
  spdlog::info("profd " PROFD_VERSION " listens on {}", config.socket);
  bool all_stored = false;
  boost::asio::co_spawn(io, run_until_signal(io, **server, sessions),
                        [&all_stored](const std::exception_ptr& problem, bool stored) {
                          if (problem) std::rethrow_exception(problem);
                          all_stored = stored;
                        });
  io.run();
  if (!all_stored) return fail(ErrorCode::kIo, "samples are lost, since they could not be stored");
  return {};
}

int run(const Options& options) {
  const Result<Config> config = configure(options);
  if (!config) {
    say(config.error());
    return kExitUsage;
  }
  set_up_log(config->log_level);
  if (!host_is_fit()) return kExitHostLacksFeature;
  raise_open_files_limit();
  const Result<std::vector<InstanceLock>> locks = lock_out_others(*config);
  if (!locks) {
    say(locks.error());
    return kExitFailed;
  }
  if (const Result<void> served = serve(*config); !served) {
    say(served.error());
    return exit_code_of(served.error());
  }
  return 0;
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  if (profd::is_parser_call(argc, argv)) return profd::run_parser();
  CLI::App app{"Samples the stacks of every process; profctl tells it what for.", "profd"};
  profd::Options options;
  profd::add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : profd::kExitUsage;
  }
  try {
    return profd::run(options);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "profd: %s\n", problem.what());
    return profd::kExitFailed;
  }
}
