#include "ctl/ship/transport/http_proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "ctl/ship/transport/http_auth.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::string_view kPlainScheme = "http://";

// The bytes that "%XX" stands for. None: it stands for none.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain.push_back(text[i]);
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    std::uint8_t byte = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    plain.push_back(static_cast<char>(byte));
    i += 2;
  }
  return plain;
}

// "USER:PASSWORD" of a URL as a header. None: it is malformed.
std::optional<std::string> authorization_of(std::string_view user_info) {
  const std::size_t colon = std::min(user_info.find(':'), user_info.size());
  const auto user = percent_decoded(user_info.substr(0, colon));
  const auto password = percent_decoded(user_info.substr(std::min(colon + 1, user_info.size())));
  if (!user || !password || user->find(':') != std::string::npos) return std::nullopt;
  return basic_authorization(*user, *password);
}

Result<std::optional<HttpProxy>> parse_proxy(std::string_view value, const std::string& variable) {
  const Error invalid =
      invalid_argument("the variable " + variable + " must be http://[USER:PASSWORD@]HOST[:PORT]",
                       "set it for profctl ship, or unset it");
  if (value.starts_with(kPlainScheme)) value.remove_prefix(kPlainScheme.size());
  if (value.ends_with('/')) value.remove_suffix(1);
  if (value.find('/') != std::string_view::npos) return invalid;  // another scheme, or a path
  HttpProxy proxy;
  const std::size_t at = value.rfind('@');
  if (at != std::string_view::npos) {
    auto authorization = authorization_of(value.substr(0, at));
    if (!authorization) return invalid;
    proxy.authorization = std::move(*authorization);
    value.remove_prefix(at + 1);
  }
  auto address = parse_http_url(std::string(kPlainScheme).append(value));
  if (!address) return invalid;
  proxy.address = std::move(*address);
  return std::optional(std::move(proxy));
}

struct NetworkAddress {
  std::array<std::uint8_t, 16> bytes{};
  unsigned bits = 0;  // 32 or 128
};

std::optional<NetworkAddress> parse_address(const std::string& text) {
  NetworkAddress address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
    address.bits = 32;
  } else if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    address.bits = 128;
  } else {
    return std::nullopt;
  }
  return address;
}

// "ADDRESS" or "ADDRESS/BITS".
bool is_in_network(const NetworkAddress& address, const std::string& network) {
  const std::size_t slash = std::min(network.find('/'), network.size());
  const auto base = parse_address(network.substr(0, slash));
  if (!base || base->bits != address.bits) return false;
  unsigned bits = base->bits;
  if (slash < network.size()) {
    const char* const begin = network.data() + slash + 1;
    const char* const end = network.data() + network.size();
    const auto read = std::from_chars(begin, end, bits);
    if (read.ec != std::errc() || read.ptr != end || bits > base->bits) return false;
  }
  for (unsigned bit = 0; bit < bits; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if (((address.bytes.at(bit / 8) ^ base->bytes.at(bit / 8)) & mask) != 0) return false;
  }
  return true;
}

struct NoProxyEntry {
  std::string host;
  std::string_view port;  // "": any
};

NoProxyEntry parse_no_proxy(std::string_view entry) {
  NoProxyEntry parsed;
  std::string_view host = entry;
  if (entry.starts_with('[')) {
    const std::size_t end = std::min(entry.find(']'), entry.size());
    host = entry.substr(1, end - 1);
    const std::string_view rest = entry.substr(std::min(end + 1, entry.size()));
    if (rest.starts_with(':')) parsed.port = rest.substr(1);
  } else if (std::ranges::count(entry, ':') == 1) {
    host = entry.substr(0, entry.find(':'));
    parsed.port = entry.substr(host.size() + 1);
  }
  parsed.host = lower_ascii(host);
  return parsed;
}

bool matches_no_proxy(std::string_view text, const HttpUrl& url) {
  if (text == "*") return true;
  const NoProxyEntry entry = parse_no_proxy(text);
  if (!entry.port.empty() && entry.port != url.port) return false;
  if (const auto address = parse_address(url.host)) return is_in_network(*address, entry.host);
  std::string_view domain = entry.host;
  if (domain.starts_with("*.")) domain.remove_prefix(1);
  if (domain.starts_with('.')) domain.remove_prefix(1);
  if (domain.empty()) return false;
  return url.host == domain || url.host.ends_with("." + std::string(domain));
}

}  // namespace

std::string process_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::optional<HttpProxy>> find_proxy(const HttpUrl& url, const Environment& environment) {
  if (is_loopback_host(url.host)) return std::optional<HttpProxy>();
  std::string excluded = environment("no_proxy");
  if (excluded.empty()) excluded = environment("NO_PROXY");
  if (is_in_no_proxy(excluded, url)) return std::optional<HttpProxy>();
  std::string variable = url.is_https ? "https_proxy" : "http_proxy";
  std::string value = environment(variable.c_str());
  if (value.empty() && url.is_https) {
    variable = "HTTPS_PROXY";
    value = environment(variable.c_str());
  }
  if (value.empty()) return std::optional<HttpProxy>();
  return parse_proxy(value, variable);
}

bool is_in_no_proxy(std::string_view list, const HttpUrl& url) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(", \t"), list.size());
    const std::string_view entry = list.substr(0, end);
    if (!entry.empty() && matches_no_proxy(entry, url)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace profd
