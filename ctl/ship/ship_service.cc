#include "ctl/ship/ship_service.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>

#include "ctl/ship/endpoint_report.h"
#include "ctl/ship/endpoint_shipper.h"
#include "ctl/ship/engine_endpoint.h"
#include "ctl/ship/metrics_server.h"
#include "ctl/ship/ship_metrics.h"
#include "ctl/ship/ship_state.h"
#include "ctl/ship/ship_status.h"
#include "ctl/ship/transport/push_client.h"
#include "ctl/ship/windows/unpacked_window.h"
#include "formats/api/history_api.h"
#include "formats/base/errors.h"
#include "formats/base/seeded_hash.h"

namespace profd {
namespace {

class DaemonWindows final : public WindowSource {
 public:
  explicit DaemonWindows(Client client) : client_(std::move(client)) {}

  Result<WindowNames> windows_after(const std::string& name) override {
    return client_.windows_after(name);
  }
  Result<std::string> window(const std::string& name) override { return client_.window(name); }

 private:
  Client client_;
};

class WallShipClock final : public ShipClock {
 public:
  explicit WallShipClock(int stop_fd) : stop_fd_(stop_fd) {}

  [[nodiscard]] ShipTime now() override { return std::chrono::system_clock::now(); }
  [[nodiscard]] bool wait(std::chrono::milliseconds time) override {
    pollfd stop{.fd = stop_fd_, .events = POLLIN, .revents = 0};
    return ::poll(&stop, 1, static_cast<int>(time.count())) <= 0;
  }
  [[nodiscard]] double random() override {
    return std::uniform_real_distribution(0.0, 1.0)(random_);
  }

 private:
  int stop_fd_;
  std::mt19937_64 random_{random_seed()};
};

// The last report of an endpoint, which its thread sets and others copy.
class SharedReport {
 public:
  explicit SharedReport(EndpointReport report) : report_(std::move(report)) {}

  void set(EndpointReport report) {
    const std::scoped_lock lock(mutex_);
    report.name = std::move(report_.name);
    report.kind = std::move(report_.kind);
    report.url = std::move(report_.url);
    report_ = std::move(report);
  }
  [[nodiscard]] EndpointReport get() const {
    const std::scoped_lock lock(mutex_);
    return report_;
  }

 private:
  mutable std::mutex mutex_;
  EndpointReport report_;
};

EndpointReport first_report(const EngineEndpoint& endpoint, const ShipState& state) {
  EndpointReport report;
  report.name = endpoint.http.name;
  report.kind = endpoint.engine->traits().kind;
  report.url = endpoint.http.url;
  report.state = state;
  return report;
}

PushSurroundings surroundings_of(int stop_fd) {
  PushSurroundings surroundings;
  surroundings.stop_fd = stop_fd;
  return surroundings;
}

// What the thread of an endpoint owns.
struct EndpointThread {
  EndpointThread(EngineEndpoint endpoint, ShipStateFile opened, Client client, int stop_fd)
      : name(endpoint.http.name),
        url(endpoint.http.url),
        start(opened.state()),
        report(first_report(endpoint, start)),
        engine(std::move(endpoint.engine)),
        file(std::move(opened)),
        windows(std::move(client)),
        sender(make_push_client(endpoint.http, surroundings_of(stop_fd))),
        clock(stop_fd) {}

  std::string name;
  std::string url;
  ShipState start;  // of this process; other threads read it
  SharedReport report;
  std::unique_ptr<Engine> engine;
  ShipStateFile file;
  DaemonWindows windows;
  std::unique_ptr<PushClient> sender;
  WallShipClock clock;
};

using Endpoints = std::vector<std::unique_ptr<EndpointThread>>;

std::vector<EndpointReport> reports_of(const Endpoints& endpoints) {
  std::vector<EndpointReport> reports;
  reports.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) reports.push_back(endpoint->report.get());
  return reports;
}

// For /metrics. After a kill, the counters of the file may be lower than they were, by those of the
// window that was in flight, and Prometheus would take all of them for new. It expects counters to
// begin at 0 where a process does.
std::vector<EndpointReport> reports_since_start(const Endpoints& endpoints) {
  auto reports = reports_of(endpoints);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].state = counted_since(endpoints[i]->start, std::move(reports[i].state));
  }
  return reports;
}

// Writes each change, a second late at most, and otherwise that the process lives.
void write_reports(const Endpoints& endpoints, ShipStatusWriter& writer, int stop_fd,
                   const ShipLog& log) {
  constexpr std::chrono::seconds kTick{1};
  constexpr unsigned kMaxQuietTicks = 5;
  WallShipClock clock(stop_fd);
  std::vector<EndpointReport> written;
  bool is_well = true;
  unsigned quiet_ticks = kMaxQuietTicks;
  do {
    auto reports = reports_of(endpoints);
    if (reports == written && ++quiet_ticks < kMaxQuietTicks) continue;
    const auto done = writer.write(reports);
    if (!done && is_well) {
      log("profctl status can't show what ship does: " + error_text(done.error()));
    }
    is_well = done.has_value();
    written = std::move(reports);
    quiet_ticks = 0;
  } while (clock.wait(kTick));
}

MetricsServer::MakeText metrics_text(const Client& client, const Endpoints& endpoints,
                                     int stop_fd) {
  Client::Limits limits;
  limits.answer = std::chrono::seconds(3);
  limits.stall = std::chrono::seconds(3);
  limits.stop_fd = stop_fd;
  // The server calls it on one thread.
  auto daemon = std::make_shared<Client>(client.another(limits));
  return [daemon, &endpoints] {
    const auto metrics = daemon->metrics();
    return ship_metrics(metrics, reports_since_start(endpoints), std::chrono::system_clock::now());
  };
}

// The server of /metrics. Any user of the host may have its port, so windows are sent without it,
// and it is tried again.
class MetricsThread {
 public:
  MetricsThread(MetricsListen listen, MetricsServer::MakeText make_text, const ShipLog& log)
      : listen_(std::move(listen)), make_text_(std::move(make_text)), log_(log) {}

  // Tries once, and logs what became of it; the same failure once.
  void open() {
    auto opened = MetricsServer::open(listen_, make_text_);
    if (!opened) return note(opened.error());
    problem_.clear();
    server_ = std::move(*opened);
    log_("metrics are served at " + server_->url() +
         (server_->is_public() ? "; other hosts can reach this address" : ""));
  }

  // Until `stop_fd` is readable.
  void run(int stop_fd, std::chrono::milliseconds pause) {
    WallShipClock clock(stop_fd);
    do {
      if (!server_) open();
      if (!server_) continue;
      if (auto served = server_->run(stop_fd); !served) note(served.error());
      server_.reset();
    } while (clock.wait(pause));
  }

 private:
  void note(const Error& error) {
    const std::string problem = error_text(error);
    if (std::exchange(problem_, problem) == problem) return;
    log_("no metrics are served, which is tried again after a pause: " + problem);
  }

  MetricsListen listen_;
  MetricsServer::MakeText make_text_;
  const ShipLog& log_;
  std::unique_ptr<MetricsServer> server_;
  std::string problem_;  // that was logged last
};

// With glibc's own settings, a thread keeps what it has freed, up to twice the largest allocation
// so far: for each endpoint the memory of a window. With these, tables go back to the kernel at
// once.
void return_freed_memory() {
  constexpr int kLargeBytes = 512 << 10;
  (void)::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  (void)::mallopt(M_TRIM_THRESHOLD, kLargeBytes);
  (void)::mallopt(M_ARENA_MAX, 1);
}

// What was sent is for the user of ship alone.
Result<void> make_state_directory(const std::string& directory) {
  constexpr mode_t kStateDirectoryMode = 0700;
  if (::mkdir(directory.c_str(), kStateDirectoryMode) == 0 || errno == EEXIST) return {};
  const Error error = fail_errno("could not make " + directory);
  return fail(error.code, error.message,
              "make it for the user of profctl ship, or give another one with --state-dir DIR");
}

Result<Endpoints> open_endpoints(const ShipConfig& config, const std::string& state_directory,
                                 const Client& client, int stop_fd) {
  Client::Limits limits;
  limits.stop_fd = stop_fd;
  Endpoints endpoints;
  for (EngineEndpoint& endpoint : endpoints_of(config)) {
    auto file = ShipStateFile::open(state_directory, endpoint.http.name);
    if (!file) return file.error();
    endpoints.push_back(std::make_unique<EndpointThread>(std::move(endpoint), std::move(*file),
                                                         client.another(limits), stop_fd));
  }
  return endpoints;
}

void run_endpoint(EndpointThread& endpoint, WindowMemory& memory, const SplitOptions& split,
                  const ShipLog& log) {
  EndpointShipper shipper(
      {.source = endpoint.windows,
       .engine = *endpoint.engine,
       .client = *endpoint.sender,
       .clock = endpoint.clock,
       .file = endpoint.file,
       .memory = memory,
       .split = split,
       .log = [&](const std::string& line) { log("endpoint " + endpoint.name + ": " + line); },
       .show = [&](const EndpointReport& report) { endpoint.report.set(report); },
       .url = endpoint.url});
  shipper.run();
}

// A mistyped url is seen before the first window is sent.
void log_destinations(const Endpoints& endpoints, const std::string& host, const ShipLog& log) {
  for (const auto& endpoint : endpoints) {
    log("endpoint " + endpoint->name + ": sends the windows to " + endpoint->url + " as the host " +
        host);
  }
}

}  // namespace

Result<void> run_ship(const ShipConfig& config, const ShipPlaces& places, const Client& client,
                      int stop_fd, const ShipLog& log, std::chrono::milliseconds metrics_pause) {
  return_freed_memory();
  if (auto made = make_state_directory(places.state_directory); !made) return made.error();
  const auto endpoints = open_endpoints(config, places.state_directory, client, stop_fd);
  if (!endpoints) return endpoints.error();
  std::optional<MetricsThread> metrics;
  if (config.metrics) {
    metrics.emplace(*config.metrics, metrics_text(client, *endpoints, stop_fd), log);
    metrics->open();
  }
  log_destinations(*endpoints, config.split.host, log);
  ShipStatusWriter writer(places.runtime_directory);
  WindowMemory memory;
  std::vector<std::jthread> threads;
  threads.reserve(endpoints->size() + 2);
  for (const auto& endpoint : *endpoints) {
    threads.emplace_back([&] { run_endpoint(*endpoint, memory, config.split, log); });
  }
  threads.emplace_back([&] { write_reports(*endpoints, writer, stop_fd, log); });
  if (metrics) threads.emplace_back([&] { metrics->run(stop_fd, metrics_pause); });
  threads.clear();  // joins
  (void)writer.write(reports_of(*endpoints));
  return {};
}

}  // namespace profd
