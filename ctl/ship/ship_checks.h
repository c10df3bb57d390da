// What profctl doctor checks of profctl ship.

#pragma once

#include <string>
#include <vector>

#include "ctl/ship/endpoint_report.h"
#include "ctl/ship/engines/engine.h"
#include "ctl/ship/transport/http_endpoint.h"
#include "ctl/ship/transport/push_client.h"
#include "formats/api/check_report.h"

namespace profd {

// Whether the configuration is valid, whether profctl ship runs, and for each endpoint whether it
// can be reached from here and accepts the credentials. Some seconds at most, for all endpoints
// at once. Empty where the file is absent. "ship" is the process, "ship/NAME" an endpoint.
[[nodiscard]] CheckReport check_ship(const std::string& config_file,
                                     const std::string& runtime_directory);

// Adds which of these endpoints fail for a profctl ship that runs, each to its own point: one that
// fails from here too is said once, with since when. An endpoint without a point gets one.
void add_failures(const std::vector<EndpointReport>& endpoints, CheckReport& report);

// Connects, and sends a request without profiles, so nothing is stored. Pyroscope refuses it after
// it has checked the tenant, with a message of its own (`empty_refusal` of EngineTraits). Another
// refusal says nothing of the credentials: it may be that of a gateway.
[[nodiscard]] CheckPoint check_endpoint(const HttpEndpoint& endpoint, const Engine& engine,
                                        PushClient& client);

}  // namespace profd
