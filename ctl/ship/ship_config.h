// The configuration of `profctl ship`: endpoints, and how windows are split by service.
//
//     host = "web-1"           # the label; the name of this host without it
//     max_services = 200
//
//     [metrics]
//     listen = "127.0.0.1:9464"   # /metrics by TCP; nothing is served without it
//
//     [[pyroscope]]
//     name = "a"               # of its position in the state directory
//     url = "https://pyroscope.example"
//     tenant = "team-a"        # X-Scope-OrgID
//     basic_auth = { username = "a", password_file = "/etc/profd/password" }
//     bearer_token_file = "/etc/profd/token"   # instead of basic_auth
//     ca_file = "/etc/profd/ca.pem"            # instead of the CAs of the system
//     cert_file = "/etc/profd/cert.pem"        # of this host, with its key_file
//     key_file = "/etc/profd/key.pem"
//
//     [[parca]]                # the same without tenant
//     name = "b"               # unique over all kinds
//     url = "http://127.0.0.1:7070"
//
//     [[otlp]]                 # as pyroscope; experimental
//     name = "c"
//     url = "http://127.0.0.1:4318"
//
//     [[service]]              # the first rule that matches decides
//     unit = "nginx*"
//     service_name = "web"
//     labels = { team = "edge" }

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/ship/transport/http_endpoint.h"
#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"

namespace profd {

inline constexpr const char* kShipConfigFile = "/etc/profd/ship.toml";
inline constexpr const char* kShipExampleFile = "/usr/share/doc/profd/examples/ship.toml";

struct PyroscopeEndpoint {
  HttpEndpoint http;
  std::string tenant;  // "": no header
};

struct ParcaEndpoint {
  HttpEndpoint http;
};

struct OtlpEndpoint {
  HttpEndpoint http;
  std::string tenant;  // "": no header
};

// Where /metrics is served.
struct MetricsListen {
  std::string address;     // of IPv4 or IPv6, without brackets
  std::uint16_t port = 0;  // 0: any that is free

  friend bool operator==(const MetricsListen&, const MetricsListen&) = default;
};

struct ShipConfig {
  SplitOptions split;
  std::vector<PyroscopeEndpoint> pyroscope;
  std::vector<ParcaEndpoint> parca;
  std::vector<OtlpEndpoint> otlp;
  std::optional<MetricsListen> metrics;
};

// A file that an endpoint names: of a secret, a certificate, a key or CAs.
struct EndpointFile {
  std::string key;    // "bearer_token_file"
  std::string path;   // absolute
  std::string place;  // "FILE:LINE:COLUMN: "
};

struct ShipConfigReading {
  ShipConfig config;
  std::vector<EndpointFile> files;  // they may be absent: endpoint_files.h
  // kInvalidArgument, "FILE:LINE:COLUMN: what", in the order of their places.
  std::vector<Error> errors;
};

[[nodiscard]] ShipConfigReading read_ship_config(std::string_view text, const std::string& file);

// Of a file. kNotFound: there is none, with what to do. kInvalidArgument: it has more than 1 MiB;
// others: it can't be read.
[[nodiscard]] Result<ShipConfigReading> load_ship_config(const std::string& file);

}  // namespace profd
