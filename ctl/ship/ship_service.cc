#include "ctl/ship/ship_service.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "ctl/ship/endpoint_shipper.h"
#include "ctl/ship/engine.h"
#include "ctl/ship/push_client.h"
#include "ctl/ship/ship_state.h"
#include "formats/base/seeded_hash.h"

namespace profd {
namespace {

class DaemonWindows final : public WindowSource {
 public:
  explicit DaemonWindows(Client client) : client_(std::move(client)) {}

  Result<std::vector<std::string>> windows_after(const std::string& name) override {
    auto names = client_.windows_after(name);
    if (!names) return names.error();
    return std::move(names->windows);
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

PushSurroundings surroundings_of(int stop_fd) {
  PushSurroundings surroundings;
  surroundings.stop_fd = stop_fd;
  return surroundings;
}

struct EngineEndpoint {
  HttpEndpoint http;
  std::unique_ptr<Engine> engine;
};

std::vector<EngineEndpoint> endpoints_of(const ShipConfig& config) {
  std::vector<EngineEndpoint> endpoints;
  endpoints.reserve(config.pyroscope.size() + config.parca.size() + config.otlp.size());
  for (const PyroscopeEndpoint& endpoint : config.pyroscope) {
    endpoints.push_back({endpoint.http, make_pyroscope_engine(endpoint.tenant)});
  }
  for (const ParcaEndpoint& endpoint : config.parca) {
    endpoints.push_back({endpoint.http, make_parca_engine()});
  }
  for (const OtlpEndpoint& endpoint : config.otlp) {
    endpoints.push_back({endpoint.http, make_otlp_engine(endpoint.tenant)});
  }
  return endpoints;
}

// What the thread of an endpoint owns.
struct EndpointThread {
  EndpointThread(EngineEndpoint endpoint, ShipStateFile opened, Client client, int stop_fd)
      : name(endpoint.http.name),
        engine(std::move(endpoint.engine)),
        file(std::move(opened)),
        windows(std::move(client)),
        sender(make_push_client(endpoint.http, surroundings_of(stop_fd))),
        clock(stop_fd) {}

  std::string name;
  std::unique_ptr<Engine> engine;
  ShipStateFile file;
  DaemonWindows windows;
  std::unique_ptr<PushClient> sender;
  WallShipClock clock;
};

}  // namespace

Result<void> run_ship(const ShipConfig& config, const std::string& state_directory,
                      const Client& client, int stop_fd, const ShipLog& log) {
  Client::Limits limits;
  limits.stop_fd = stop_fd;
  std::vector<std::unique_ptr<EndpointThread>> endpoints;
  for (EngineEndpoint& endpoint : endpoints_of(config)) {
    auto file = ShipStateFile::open(state_directory, endpoint.http.name);
    if (!file) return file.error();
    endpoints.push_back(std::make_unique<EndpointThread>(std::move(endpoint), std::move(*file),
                                                         client.another(limits), stop_fd));
  }
  std::vector<std::jthread> threads;
  threads.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    threads.emplace_back([&endpoint, &config, &log] {
      EndpointShipper shipper({.source = endpoint->windows,
                               .engine = *endpoint->engine,
                               .client = *endpoint->sender,
                               .clock = endpoint->clock,
                               .file = endpoint->file,
                               .split = config.split,
                               .log = [&endpoint, &log](const std::string& line) {
                                 log("endpoint " + endpoint->name + ": " + line);
                               }});
      shipper.run();
    });
  }
  threads.clear();  // joins
  return {};
}

}  // namespace profd
