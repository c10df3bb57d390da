#include "daemon/daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "collectors/bpf/sample.h"
#include "collectors/host/thread_priority.h"
#include "collectors/host/uid_owners.h"
#include "collectors/host/user_refusals.h"
#include "collectors/interpreters/codes.h"
#include "collectors/jit/processes.h"
#include "collectors/parser/parser.h"
#include "collectors/sampling/sampler.h"
#include "daemon/base/allocator.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/base/stall_monitor.h"
#include "daemon/control/answer_encoder.h"
#include "daemon/control/public_door.h"
#include "daemon/control/server.h"
#include "daemon/control/service.h"
#include "daemon/control/status.h"
#include "daemon/history/continuous.h"
#include "daemon/history/history.h"
#include "daemon/history/store.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/drain_loop.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/samples/stack_table.h"
#include "daemon/service/caller.h"
#include "daemon/service/unix_listener.h"
#include "daemon/service/watchdog.h"
#include "daemon/sessions/caller_limits.h"
#include "daemon/sessions/sample_recorder.h"
#include "daemon/sessions/sessions.h"
#include "daemon/storage/file_io.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "daemon/xray/apps.h"
#include "daemon/xray/directory.h"
#include "daemon/xray/recorder.h"
#include "formats/api/history_api.h"

namespace profd {
namespace {

using boost::asio::awaitable;

// A part that can't be made ends the start.
struct StartError {
  Error error;
};

template <class T>
T value_of(Result<T> part) {
  if (!part) throw StartError{part.error()};
  return std::move(*part);
}

std::unique_ptr<Sampler> open_sampler(const Config& config, Aggregator& aggregator,
                                      InterpretedCodes& codes, UserRefusals& refusals) {
  return value_of(Sampler::open({.ring_bytes = config.ring_bytes,
                                 .unwinding = {.cache_directory = config.state_dir + "/unwind",
                                               .max_bytes = config.unwind_max_bytes,
                                               .refusals = &refusals},
                                 .codes = &codes},
                                aggregator));
}

// `sampler`, which gets the unwind rows and the memory ranges of JIT code, is opened later.
std::unique_ptr<JitProcesses> start_jit(const Config& config,
                                        const std::unique_ptr<Sampler>& sampler,
                                        UserRefusals& refusals) {
  auto send_rows = [&sampler](const ProcessKey& process, std::uint32_t owner, std::uint32_t area,
                              EncodeTable encode) {
    sampler->set_jit_code_rows(process, owner, area, std::move(encode));
  };
  auto watch_memory = [&sampler, was_logged = false](const ProcessKey& process,
                                                     std::span<const AddressRange> ranges) mutable {
    const auto watched = sampler->watch_unmaps(process, ranges);
    if (watched || std::exchange(was_logged, true)) return;
    log::warn("could not watch unmaps, so unmapped JIT code keeps its name: {}",
              watched.error().message);
  };
  JitOptions options{.send_rows = std::move(send_rows),
                     .watch_memory = std::move(watch_memory),
                     .refusals = &refusals};
  std::ranges::copy(config.jit_directories, std::back_inserter(options.directories));
  return value_of(JitProcesses::start(std::move(options)));
}

// root gives the socket to the group profd. The service's user may not change groups, and the
// primary group is that one already.
std::optional<gid_t> admin_group() {
  return ::geteuid() == 0 ? find_privileged_group() : std::nullopt;
}

// Beside those of the CPU time, whose files have the same names.
WindowStore open_off_cpu_store(const Config& config) {
  const std::string directory = std::filesystem::absolute(config.state_dir) / "off_cpu";
  (void)value_of(open_own_directory(directory));
  return value_of(WindowStore::open(directory));
}

template <class Reason>
std::vector<std::string_view> all_names(std::size_t count, std::string_view (*name_of)(Reason)) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(name_of(static_cast<Reason>(i)));
  return names;
}

// The parts of the daemon, and the Service of its control server over them.
class Daemon final : public Service {
 public:
  // Throws StartError. The references must outlive the daemon.
  Daemon(RunningConfig& config, ServiceManager& manager, UniqueFd control_socket);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // False when data of sessions are lost.
  bool run();

  awaitable<Result<std::string>> start(Caller caller, StartRequest request) override {
    return sessions_.start(caller, std::move(request));
  }
  Result<SessionInfo> session(const Caller& caller, const std::string& id) override {
    return sessions_.session(caller, id);
  }
  std::vector<SessionInfo> sessions(const Caller& caller) override {
    return sessions_.sessions(caller);
  }
  awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) override {
    return sessions_.stop(caller, std::move(id));
  }
  awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) override {
    return sessions_.dump(caller, std::move(id));
  }
  awaitable<Result<std::string>> take(Caller caller, std::string id) override {
    return sessions_.take(caller, std::move(id));
  }
  awaitable<Result<ResultInfo>> export_windows(Caller caller, ExportRequest request) override {
    return sessions_.export_windows(caller, std::move(request));
  }
  awaitable<Result<std::string>> encode(Caller caller, ResultInfo result) override {
    return encoder_.encode(caller.privileged, std::move(result));
  }
  awaitable<Result<std::string>> encode(Caller caller, History history) override {
    return encoder_.encode(caller.privileged, std::move(history));
  }
  awaitable<Result<std::string>> encode(Caller caller, WindowShares window) override {
    return encoder_.encode(caller.privileged, std::move(window));
  }
  awaitable<Result<History>> history(Caller caller, HistoryRequest request) override {
    WindowHistory& of_event = asks_for_blocks(request.event) ? off_cpu_history_ : history_;
    return of_event.list(caller, std::move(request));
  }
  awaitable<Result<WindowShares>> last_window(Caller caller) override {
    return history_.last(caller);
  }
  awaitable<Result<WindowNames>> windows_after(Caller caller, std::string after,
                                               IsWanted is_wanted) override {
    return history_.names_after(caller, std::move(after), std::move(is_wanted));
  }
  awaitable<Result<std::string>> window_file(Caller caller, std::string window) override {
    return history_.read_window(caller, std::move(window));
  }
  Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                      const std::string& path) override {
    return sessions_.open_result_file(caller, result, path);
  }
  Result<void> remove_result(const Caller& caller, const std::string& result) override {
    return sessions_.remove_result(caller, result);
  }
  void count_refusal(const Caller& caller, std::string_view reason) override {
    if (!caller.privileged) refusals_.add(caller.uid, reason);
  }
  StatusInfo status(const Caller& caller) override;
  StatusReasons status_reasons() override;
  Result<ConfigInfo> configuration(const Caller& caller) override;

 private:
  [[nodiscard]] const Config& settings() const { return config_.config(); }
  [[nodiscard]] std::filesystem::path beside_socket(const char* name) const {
    return std::filesystem::path(settings().socket).parent_path() / name;
  }
  std::unique_ptr<XrayDirectory> open_traces();
  void apply_settings();
  void set_windows() {
    drain_loop_.set_windows(continuous_.is_sampling() || off_cpu_windows_.is_sampling());
  }
  void reload();
  awaitable<bool> serve();
  awaitable<bool> shut_down();
  [[nodiscard]] std::string status_line();
  [[nodiscard]] StatusInfo::Xray describe_xray() const;

  // Made from top to bottom, each after those that it needs, and destroyed in reverse.
  RunningConfig& config_;
  ServiceManager& manager_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  boost::asio::io_context io_{1};
  SessionLimits limits_;  // a reload changes them
  UidOwners uid_owners_;
  UserRefusals refusals_;

  std::unique_ptr<Parser> parser_ = value_of(Parser::start());
  JitNaming naming_{io_, start_jit(settings(), source_, refusals_)};
  InterpretedCodes codes_{&refusals_};
  Aggregator aggregator_{&naming_, &refusals_, &codes_};
  std::unique_ptr<Sampler> source_ = open_sampler(settings(), aggregator_, codes_, refusals_);
  DrainLoop drain_loop_{io_, *source_};

  ResultStore results_ = value_of(ResultStore::open(settings().state_dir + "/results", &refusals_));
  ResultWorkers workers_{io_, std::move(parser_), value_of(Parser::start())};
  Continuous continuous_{
      {.io = io_,
       .source = *source_,
       .aggregator = aggregator_,
       .sampling_changed = [this] { set_windows(); },
       .naming = &naming_,
       .start_parser = [] { return Parser::start(); },
       .refusals = &refusals_,
       .kernel_symbols = workers_.kernel_symbols(),
       .other_bytes = [this] { return off_cpu_windows_.windows().disk_bytes(); }},
      // Absolute, since profiles name their objects by their paths.
      value_of(WindowStore::open(std::filesystem::absolute(settings().state_dir)))};
  Continuous off_cpu_windows_{{.io = io_,
                               .source = *source_,
                               .aggregator = aggregator_,
                               .sampling_changed = [this] { set_windows(); },
                               .naming = &naming_,
                               .start_parser = [] { return Parser::start(); },
                               .refusals = &refusals_,
                               .kernel_symbols = workers_.kernel_symbols(),
                               .of_blocks = true},
                              open_off_cpu_store(settings())};
  WindowHistory history_{continuous_.windows(), workers_, uid_owners_,
                         [this] { return continuous_.status(); }};
  WindowHistory off_cpu_history_{off_cpu_windows_.windows(), workers_, uid_owners_,
                                 [this] { return off_cpu_windows_.status(); }, true};

  SampleRecorder sample_recorder_{{.io = io_,
                                   .source = *source_,
                                   .aggregator = aggregator_,
                                   .drain_loop = drain_loop_,
                                   .limits = limits_,
                                   .owners = uid_owners_,
                                   .naming = &naming_,
                                   .refusals = &refusals_}};
  // Where libprofd_xray looks for it.
  std::unique_ptr<XrayApps> xray_apps_ =
      value_of(XrayApps::open(io_, beside_socket("app.sock"), UidOwners(), &refusals_));
  XrayRecorder xray_recorder_{io_, *xray_apps_, uid_owners_};
  Sessions sessions_{{.io = io_,
                      .results = results_,
                      .workers = workers_,
                      .history = history_,
                      .limits = limits_,
                      .owners = uid_owners_,
                      .recorders = {&xray_recorder_, &sample_recorder_},
                      .off_cpu_history = &off_cpu_history_}};
  std::unique_ptr<XrayDirectory> traces_ = open_traces();  // null: no directory is configured
  AnswerEncoder encoder_;
  ControlServer server_;  // on the admin socket
  PublicDoor door_;
};

Daemon::Daemon(RunningConfig& config, ServiceManager& manager, UniqueFd control_socket)
    : config_(config),
      manager_(manager),
      server_(io_,
              value_of(UnixListener::open(
                  beside_socket("admin.sock"), SOCK_STREAM,
                  {.mode = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP, .group = admin_group()})),
              *this),
      door_(io_,
            value_of(control_socket.valid() ? UnixListener::adopt(std::move(control_socket))
                                            : UnixListener::open(settings().socket, SOCK_STREAM)),
            server_) {
  apply_settings();
}

std::unique_ptr<XrayDirectory> Daemon::open_traces() {
  if (settings().xray_directory.empty()) return nullptr;
  return value_of(XrayDirectory::open({.io = io_,
                                       .store = results_,
                                       .closer = xray_recorder_.closer(),
                                       .owners = uid_owners_,
                                       .unused_id = [this] { return sessions_.unused_id(); },
                                       .refusals = &refusals_},
                                      settings().xray_directory));
}

// For new sessions and the next window.
void Daemon::apply_settings() {
  log::set_level(settings().log_level);
  limits_.session_max_bytes = settings().session_max_bytes;
  results_.set_max_bytes(settings().results_max_bytes);
  continuous_.configure(settings().continuous);
  off_cpu_windows_.configure(settings().continuous);
}

bool Daemon::run() {
  Watchdog watchdog(io_, manager_,
                    {.drains = [this] { return drain_loop_.drains(); },
                     .ask_worker = [this] { return workers_.catch_up(); },
                     .status = [this] { return status_line(); }},
                    Watchdog::Times{});
  bool all_stored = false;
  boost::asio::co_spawn(io_, serve(), [&](const std::exception_ptr& problem, bool stored) {
    if (problem) std::rethrow_exception(problem);
    all_stored = stored;
    watchdog.stop();
    naming_.stop();
  });
  log::info("profd " PROFD_VERSION " listens on {}", settings().socket);
  std::optional<StallMonitor> stall_monitor;
  if (const auto limit = StallMonitor::limit_of_environment()) stall_monitor.emplace(io_, *limit);
  raise_priority_of_io_thread();
  start_returning_freed_memory();  // with this priority, since the locks are those of this thread
  io_.run();
  return all_stored;
}

awaitable<bool> Daemon::serve() {
  boost::asio::signal_set signals(io_, SIGTERM, SIGINT, SIGHUP);
  server_.start();
  door_.start();
  manager_.ready();
  for (;;) {
    const auto [error, signal] = co_await signals.async_wait(kAsValues);
    if (signal != SIGHUP) {
      log::info("ending on signal {}", signal);
      break;
    }
    manager_.reloading();
    reload();
    manager_.ready();
  }
  co_return co_await shut_down();
}

void Daemon::reload() {
  const RunningConfig::Reload reload = config_.reload();
  for (const Error& error : reload.errors) {
    log::error("the configuration stays as it was: {}", error.message);
  }
  for (const std::string& key : reload.need_restart) {
    log::warn("the new value of {} needs a restart", key);
  }
  if (!reload.errors.empty()) return;
  apply_settings();
  log::info("read the configuration again: {} new values", reload.applied.size());
}

awaitable<bool> Daemon::shut_down() {
  manager_.stopping();
  history_.shut_down();
  off_cpu_history_.shut_down();
  door_.stop_accepting();
  co_await server_.stop();
  co_await door_.finish();
  if (traces_) traces_->stop();
  const bool all_stored = co_await sessions_.shut_down();
  drain_loop_.stop();
  xray_apps_->stop();
  co_await continuous_.shut_down();
  co_await off_cpu_windows_.shut_down();
  co_return all_stored;
}

std::string Daemon::status_line() {
  const StatusInfo now = status(Caller{});
  return fmt::format("{} samples, {} lost, {} sessions, {} windows", now.ledger.sent,
                     sum_of(now.ledger.lost), now.sessions, now.continuous.windows);
}

StatusInfo Daemon::status(const Caller& caller) {
  const JitStats jit = naming_.stats();
  StatusInfo status = describe_process();
  const auto uptime = std::chrono::steady_clock::now() - started_;
  status.uptime_seconds = std::chrono::duration<double>(uptime).count();
  status.sessions = sample_recorder_.running();
  status.results_bytes = results_.bytes();
  status.results_refused = results_.refused();
  add_ledger(source_->ledger(), status);
  status.unwinding =
      describe_unwinding(source_->unwind_stats(), aggregator_.unwind_tally(), caller.privileged);
  status.unwinding.parser_restarts += workers_.parser_restarts() + jit.parser_restarts;
  status.jit = describe_jit(jit);
  status.interpreters = describe_interpreters(source_->interpreter_stats(), caller.privileged);
  if (const auto stats = source_->off_cpu_stats()) status.off_cpu = describe_off_cpu(*stats);
  NamingStats names = workers_.naming_stats();
  names += continuous_.naming_stats();
  names += off_cpu_windows_.naming_stats();
  status.names = describe_names(names);
  status.xray = describe_xray();
  status.continuous = continuous_.status();
  StatusInfo::Continuous off_cpu = off_cpu_windows_.status();
  if (off_cpu.enabled || off_cpu.disk_bytes != 0) status.continuous_off_cpu = std::move(off_cpu);
  if (caller.privileged) status.users = refusals_.users();
  return status;
}

StatusInfo::Xray Daemon::describe_xray() const {
  const auto traces = traces_ ? traces_->counts() : XrayDirectory::Counts{};
  return {.apps = xray_apps_->size(),
          .apps_refused = xray_apps_->refused(),
          .doors_replaced = xray_apps_->door().doors_replaced,
          .closers_replaced = xray_apps_->door().closers_replaced,
          .doors_stuck = xray_apps_->door().stuck,
          .sessions = xray_recorder_.running(),
          .failed = xray_recorder_.failed(),
          .ended = xray_recorder_.ended(),
          .traces = traces.logs,
          .traces_refused = traces.refused,
          .traces_missed = traces.missed};
}

StatusReasons Daemon::status_reasons() {
  return {.lost = all_names<Loss>(kLossCount, loss_name),
          .incomplete = incomplete_reasons(),
          .tables_refused = all_names<TableRefusal>(kTableRefusalCount, name_of),
          .jit_refused = all_names<JitRefusal>(kJitRefusalCount, name_of),
          .interpreted_lost = interpreter_losses(),
          .interpreters_refused = interpreter_refusals(),
          .windows_failed = all_names<WindowFailure>(kWindowFailureCount, name_of),
          .name_sources = name_sources(),
          .debug_places = debug_file_places(),
          .debug_refusals = debug_file_refusals(),
          .dwarf_losses = dwarf_losses()};
}

Result<ConfigInfo> Daemon::configuration(const Caller& caller) {
  if (caller.privileged) return config_.describe();
  return fail(ErrorCode::kPermissionDenied, "the configuration is for root and the group profd",
              "sudo profctl config");
}

}  // namespace

Result<void> run_daemon(RunningConfig& config, ServiceManager& manager, UniqueFd control_socket) {
  try {
    Daemon daemon(config, manager, std::move(control_socket));
    if (daemon.run()) return {};
  } catch (const StartError& failed) {
    return failed.error;
  }
  return fail(ErrorCode::kIo, "samples are lost, since they could not be stored");
}

}  // namespace profd
