// The proxy of an endpoint, as the environment names it: http_proxy for http, https_proxy for
// https, no_proxy for hosts that need none; HTTPS_PROXY and NO_PROXY where those are not set.
// HTTP_PROXY is not read: a CGI program's client chooses it, so that other programs do not read it
// either.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ctl/ship/transport/http_endpoint.h"
#include "formats/base/result.h"

namespace profd {

// The value of a variable; "": it is not set.
using Environment = std::function<std::string(const char* name)>;

[[nodiscard]] std::string process_environment(const char* name);

struct HttpProxy {
  HttpUrl address;            // http, without a path
  std::string authorization;  // of a Proxy-Authorization header; "": none

  friend bool operator==(const HttpProxy&, const HttpProxy&) = default;
};

// None: the endpoint is reached straight, as those of this host always are. kInvalidArgument: the
// variable is malformed; the error does not show its value, which may have a password.
[[nodiscard]] Result<std::optional<HttpProxy>> find_proxy(const HttpUrl& url,
                                                          const Environment& environment);

// Whether a list as that of no_proxy has the host, by commas or blanks: "*"; a domain, which stands
// for its subdomains too, with a dot before it or not; an address or a network ("10.0.0.0/8"); each
// may have a port.
[[nodiscard]] bool is_in_no_proxy(std::string_view list, const HttpUrl& url);

}  // namespace profd
