// The endpoints of a configuration, each with its engine.

#pragma once

#include <memory>
#include <vector>

#include "ctl/ship/engines/engine.h"
#include "ctl/ship/ship_config.h"
#include "ctl/ship/transport/http_endpoint.h"

namespace profd {

struct EngineEndpoint {
  HttpEndpoint http;
  std::unique_ptr<Engine> engine;
};

[[nodiscard]] std::vector<EngineEndpoint> endpoints_of(const ShipConfig& config);

}  // namespace profd
