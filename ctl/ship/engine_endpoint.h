// The endpoints of a configuration, each with its engine.

#pragma once

#include <memory>
#include <vector>

#include "ctl/ship/engine.h"
#include "ctl/ship/http_endpoint.h"
#include "ctl/ship/ship_config.h"

namespace profd {

struct EngineEndpoint {
  HttpEndpoint http;
  std::unique_ptr<Engine> engine;
};

[[nodiscard]] std::vector<EngineEndpoint> endpoints_of(const ShipConfig& config);

}  // namespace profd
