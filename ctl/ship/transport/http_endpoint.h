// An endpoint of `profctl ship` as its transport needs it: where it is, and how it is reached.

#pragma once

#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

struct HttpUrl {
  std::string host;  // in lower case, without the brackets of an IPv6 address
  std::string port;
  std::string path;  // "", or begins with "/" and does not end with one
  bool is_https = false;

  friend bool operator==(const HttpUrl&, const HttpUrl&) = default;
};

// "http://HOST[:PORT][/PATH]" or the same with https, in ASCII, without user, query and fragment.
[[nodiscard]] Result<HttpUrl> parse_http_url(std::string_view text);

// 1 to 65535, in decimal.
[[nodiscard]] bool is_tcp_port(std::string_view text);

[[nodiscard]] std::string lower_ascii(std::string_view text);

// "HOST:PORT", as a CONNECT request has it.
[[nodiscard]] std::string authority_of(const HttpUrl& url);

// The same without the usual port, as a Host header has it.
[[nodiscard]] std::string host_field_of(const HttpUrl& url);

// "localhost", or an address of this host's loopback interface. No other name is looked up.
[[nodiscard]] bool is_loopback_host(std::string_view host);

// Absolute paths of PEM files; "": the CAs of the system, and no certificate of this client.
struct TlsSettings {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;  // given with cert_file

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// At most one of both. The secrets are in files, which are read for each request.
struct HttpAuth {
  std::string username;  // with its file: basic_auth
  std::string password_file;
  std::string bearer_token_file;

  friend bool operator==(const HttpAuth&, const HttpAuth&) = default;
};

struct HttpEndpoint {
  std::string name;
  std::string url;  // for logs and errors: it has no secret
  HttpUrl address;
  TlsSettings tls;
  HttpAuth auth;
};

}  // namespace profd
