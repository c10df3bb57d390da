#include "daemon/daemon.h"

#include <signal.h>

#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "collectors/jit/processes.h"
#include "collectors/parser/parser.h"
#include "collectors/sampling/sampler.h"
#include "daemon/control/server.h"
#include "daemon/daemon_parts.h"
#include "daemon/daemon_service.h"
#include "daemon/history/store.h"
#include "daemon/service/watchdog.h"

namespace profd {
namespace {

// Beside the control socket, where libprofd_xray looks for it.
constexpr const char* kXrayAppSocketName = "app.sock";

// The sampler needs the rows and the memory of JIT code for unwinding.
void connect(JitProcesses& jit, Sampler& sampler) {
  jit.send_rows_to([&sampler](const ProcessKey& process, std::uint32_t owner, std::uint32_t region,
                              std::string_view table) {
    sampler.set_jit_code_rows(process, owner, region, table);
  });
  jit.send_code_memory_to(
      [&sampler, was_logged = false](const ProcessKey& process,
                                     std::span<const AddressRange> ranges) mutable {
        const auto watched = sampler.watch_unmaps(process, ranges);
        if (watched || std::exchange(was_logged, true)) return;
        spdlog::warn("could not watch unmaps, so unmapped JIT code keeps its name: {}",
                     watched.error().message);
      });
}

Result<void> open_sampling(DaemonParts& parts) {
  const Config& config = parts.config.config();
  auto jit = JitProcesses::start({.directories = config.jit.directories});
  if (!jit) return jit.error();
  auto sampler = Sampler::open({.ring_bytes = config.ring_bytes,
                                .unwinding = {.cache_directory = config.state_dir + "/unwind",
                                              .max_bytes = config.unwind_max_bytes}},
                               parts.aggregator);
  if (!sampler) return sampler.error();
  connect(**jit, **sampler);
  parts.naming = std::make_unique<JitNaming>(std::move(*jit));
  parts.naming->run(parts.io);
  parts.aggregator.look_up_code_in(parts.naming.get());
  parts.source = make_sample_source(std::move(*sampler));
  parts.drain_loop = std::make_unique<DrainLoop>(parts.io, *parts.source);
  return {};
}

Result<void> open_storage(DaemonParts& parts, std::unique_ptr<Parser> parser) {
  const std::string& state_dir = parts.config.config().state_dir;
  auto results = ResultStore::open(state_dir + "/results");
  if (!results) return results.error();
  parts.results = std::make_unique<ResultStore>(std::move(*results));
  parts.worker = std::make_unique<StoreWorker>(std::move(parser));
  // Profiles name their objects by absolute paths.
  auto windows = WindowStore::open(std::filesystem::absolute(state_dir));
  if (!windows) return windows.error();
  parts.continuous = std::make_unique<Continuous>(
      Continuous::Parts{
          .io = parts.io,
          .source = *parts.source,
          .aggregator = parts.aggregator,
          .sampling_changed =
              [&parts] { parts.drain_loop->set_windows(parts.continuous->is_sampling()); },
          .naming = parts.naming.get(),
          .start_parser = [] { return Parser::start(); }},
      std::move(*windows));
  parts.history = std::make_unique<WindowHistory>(parts.continuous->windows(), *parts.worker,
                                                  [&parts] { return parts.continuous->status(); });
  return {};
}

Result<void> open_sessions(DaemonParts& parts) {
  const Config& config = parts.config.config();
  parts.sample_recorder = std::make_unique<SampleRecorder>(
      SampleRecorder::Parts{.source = *parts.source,
                            .aggregator = parts.aggregator,
                            .drain_loop = *parts.drain_loop,
                            .limits = parts.limits,
                            .naming = parts.naming.get(),
                            .yield_slot = [&parts] { return parts.continuous->yield_slot(); }});
  auto apps = XrayApps::open(
      parts.io, std::filesystem::path(config.socket).parent_path() / kXrayAppSocketName);
  if (!apps) return apps.error();
  parts.xray_apps = std::move(*apps);
  parts.xray_recorder = std::make_unique<XrayRecorder>(parts.io, *parts.xray_apps);
  parts.sessions = std::make_unique<Sessions>(
      Sessions::Parts{.io = parts.io,
                      .results = *parts.results,
                      .worker = *parts.worker,
                      .history = *parts.history,
                      .limits = parts.limits,
                      .recorders = {parts.xray_recorder.get(), parts.sample_recorder.get()}});
  if (config.xray.directory.empty()) return {};
  auto traces = XrayDirectory::open(
      {.io = parts.io,
       .store = *parts.results,
       .unused_id = [&sessions = *parts.sessions] { return sessions.unused_id(); }},
      config.xray.directory);
  if (!traces) return traces.error();
  parts.traces = std::move(*traces);
  return {};
}

Result<std::unique_ptr<ControlServer>> open_server(DaemonParts& parts, UniqueFd socket,
                                                   Service& service) {
  if (!socket.valid()) return ControlServer::open(parts.io, parts.config.config().socket, service);
  auto listener = HttpListener::adopt(std::move(socket));
  if (!listener) return listener.error();
  return ControlServer::serve_on(parts.io, std::move(*listener), service);
}

// For new sessions and the next window.
void apply_config(DaemonParts& parts) {
  const Config& config = parts.config.config();
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  parts.limits.session_max_bytes = config.session_max_bytes;
  parts.continuous->configure(config.continuous);
}

void reload(DaemonParts& parts) {
  parts.manager.reloading();
  const ConfigInForce::Reload reload = parts.config.reload();
  for (const Error& error : reload.errors) {
    spdlog::error("the configuration stays as it was: {}", error.message);
  }
  for (const std::string& key : reload.need_restart) {
    spdlog::warn("the new value of {} needs a restart", key);
  }
  if (reload.errors.empty()) {
    apply_config(parts);
    spdlog::info("read the configuration again: {} new values", reload.applied.size());
  }
  parts.manager.ready();
}

std::string status_line(Service& service) {
  const StatusInfo status = service.status(Caller{});
  return std::to_string(status.ledger.sent) + " samples, " +
         std::to_string(sum_of(status.ledger.lost)) + " lost, " + std::to_string(status.sessions) +
         " sessions, " + std::to_string(status.continuous.windows) + " windows";
}

}  // namespace

struct Daemon::State {
  State(ConfigInForce& config, ServiceManager& manager)
      : parts{.config = config, .manager = manager}, service(parts) {}

  boost::asio::awaitable<bool> serve();
  boost::asio::awaitable<bool> shut_down();
  [[nodiscard]] HealthProbes health_probes();

  DaemonParts parts;
  DaemonService service;
  std::unique_ptr<ControlServer> server;
};

Daemon::Daemon(std::unique_ptr<State> state) : state_(std::move(state)) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::start(ConfigInForce& config, ServiceManager& manager,
                                              UniqueFd control_socket) {
  // First of all, since it forks.
  auto parser = Parser::start();
  if (!parser) return parser.error();
  auto state = std::make_unique<State>(config, manager);
  DaemonParts& parts = state->parts;
  if (auto opened = open_sampling(parts); !opened) return opened.error();
  if (auto opened = open_storage(parts, std::move(*parser)); !opened) return opened.error();
  if (auto opened = open_sessions(parts); !opened) return opened.error();
  auto server = open_server(parts, std::move(control_socket), state->service);
  if (!server) return server.error();
  state->server = std::move(*server);
  apply_config(parts);
  return std::unique_ptr<Daemon>(new Daemon(std::move(state)));
}

Result<void> Daemon::run() {
  boost::asio::io_context& io = state_->parts.io;
  Watchdog watchdog(io, state_->parts.manager, state_->health_probes());
  bool all_stored = false;
  boost::asio::co_spawn(io, state_->serve(), [&](const std::exception_ptr& problem, bool stored) {
    if (problem) std::rethrow_exception(problem);
    all_stored = stored;
    watchdog.stop();
    state_->parts.naming->stop();
  });
  spdlog::info("profd " PROFD_VERSION " listens on {}", state_->parts.config.config().socket);
  io.run();
  if (all_stored) return {};
  return fail(ErrorCode::kIo, "samples are lost, since they could not be stored");
}

// False when data of sessions are lost.
boost::asio::awaitable<bool> Daemon::State::serve() {
  boost::asio::signal_set signals(parts.io, SIGTERM, SIGINT, SIGHUP);
  server->start();
  parts.manager.ready();
  for (;;) {
    const auto [error, signal] =
        co_await signals.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    if (signal != SIGHUP) {
      spdlog::info("ending on signal {}", signal);
      break;
    }
    reload(parts);
  }
  co_return co_await shut_down();
}

boost::asio::awaitable<bool> Daemon::State::shut_down() {
  parts.manager.stopping();
  parts.history->shut_down();
  co_await server->stop();
  if (parts.traces) parts.traces->stop();
  const bool all_stored = co_await parts.sessions->shut_down();
  parts.drain_loop->stop();
  parts.xray_apps->stop();
  co_await parts.continuous->shut_down();
  co_return all_stored;
}

HealthProbes Daemon::State::health_probes() {
  return {.drains = [this] { return parts.drain_loop->drains(); },
          .ask_worker = [this] { return parts.worker->catch_up(); },
          .status = [this] { return status_line(service); }};
}

}  // namespace profd
