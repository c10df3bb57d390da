#include "ctl/ship/engine_endpoint.h"

namespace profd {

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

}  // namespace profd
