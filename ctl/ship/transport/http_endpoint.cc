#include "ctl/ship/transport/http_endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

// What a request line and a header may have.
bool is_visible_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

std::string_view usual_port(bool is_https) { return is_https ? "443" : "80"; }

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view text) {
  const Error invalid = invalid_argument("must be http://HOST[:PORT][/PATH], or https://...");
  HttpUrl url;
  url.is_https = text.starts_with(kHttps);
  if (!url.is_https && !text.starts_with(kHttp)) return invalid;
  text.remove_prefix(url.is_https ? kHttps.size() : kHttp.size());
  if (text.substr(0, text.find('/')).find('@') != std::string_view::npos) {
    return invalid_argument("must have no user and password",
                            "give them with basic_auth = { username = \"...\", password_file = "
                            "\"...\" }");
  }
  if (text.find_first_of("?#@") != std::string_view::npos || !is_visible_ascii(text)) {
    return invalid;
  }
  const std::string_view place = text.substr(0, text.find('/'));
  url.path = text.substr(place.size());
  while (url.path.ends_with('/')) url.path.pop_back();
  const bool has_brackets = place.starts_with('[');
  const std::size_t end = has_brackets ? place.find(']') : std::min(place.find(':'), place.size());
  if (end == std::string_view::npos) return invalid;
  url.host = lower_ascii(has_brackets ? place.substr(1, end - 1) : place.substr(0, end));
  const std::string_view rest = place.substr(has_brackets ? end + 1 : end);
  url.port = rest.empty() ? usual_port(url.is_https) : rest.substr(1);
  // A dot at the start would stand for any subdomain in a certificate.
  if (url.host.empty() || url.host.starts_with('.') || (!rest.empty() && !rest.starts_with(':')) ||
      !is_tcp_port(url.port)) {
    return invalid;
  }
  return url;
}

bool is_tcp_port(std::string_view text) {
  const auto is_decimal = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, is_decimal) &&
         std::stoul(std::string(text)) - 1 < 0xffff;
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::string authority_of(const HttpUrl& url) { return bracketed(url.host) + ":" + url.port; }

std::string host_field_of(const HttpUrl& url) {
  return url.port == usual_port(url.is_https) ? bracketed(url.host) : authority_of(url);
}

bool is_loopback_host(std::string_view host) {
  const std::string text(host);
  if (text == "localhost") return true;
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (::inet_pton(AF_INET, text.c_str(), address.data()) == 1) return address[0] == 127;
  constexpr std::array<unsigned char, sizeof(in6_addr)> kLoopback{0, 0, 0, 0, 0, 0, 0, 0,
                                                                  0, 0, 0, 0, 0, 0, 0, 1};
  return ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1 && address == kLoopback;
}

}  // namespace profd
