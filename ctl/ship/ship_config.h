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
//     url = "http://127.0.0.1:4040"
//     tenant = "team-a"        # X-Scope-OrgID
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

#include "ctl/ship/window_split.h"
#include "formats/base/result.h"

namespace profd {

inline constexpr const char* kShipConfigFile = "/etc/profd/ship.toml";

struct HttpUrl {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // "", or begins with "/" and does not end with one

  friend bool operator==(const HttpUrl&, const HttpUrl&) = default;
};

// "http://HOST[:PORT][/PATH]", without user, query and fragment.
[[nodiscard]] Result<HttpUrl> parse_http_url(std::string_view text);

struct PyroscopeEndpoint {
  std::string name;
  std::string url;
  HttpUrl address;
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
  std::optional<MetricsListen> metrics;
};

struct ShipConfigReading {
  ShipConfig config;
  std::vector<Error> errors;  // "FILE:LINE:COLUMN: what", in the order of their places
};

[[nodiscard]] ShipConfigReading read_ship_config(std::string_view text, const std::string& file);

}  // namespace profd
