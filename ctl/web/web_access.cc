#include "ctl/web/web_access.h"

#include <sys/random.h>

#include <array>
#include <stdexcept>

namespace profd {

std::string WebAccess::make_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the system has no random bytes");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string token;
  token.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    token += kDigits[byte >> 4U];
    token += kDigits[byte & 15U];
  }
  return token;
}

std::optional<WebRefusal> WebAccess::refuse(const WebHead& head) const {
  if (head.method != "GET" && head.method != "HEAD") {
    return WebRefusal{.status = 405, .why = "only GET and HEAD are answered"};
  }
  if (!is_own_host_(head.host)) {
    return WebRefusal{.why = "the request is for another host: this server is " + hosts_};
  }
  const bool is_own_site =
      head.fetch_site.empty() || head.fetch_site == "same-origin" || head.fetch_site == "none";
  const bool is_link = head.fetch_mode == "navigate" && head.fetch_dest == "document";
  // Chromium sends one with the page's own modules, too.
  const bool is_own_origin =
      head.origin.empty() || head.origin == scheme_ + "://" + std::string(head.host);
  if (!is_own_origin || !(is_own_site || is_link)) {
    return WebRefusal{.why = "the request comes from the page of another site"};
  }
  return std::nullopt;
}

bool WebAccess::has_token(std::string_view token) const {
  if (token.size() != token_.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i) {
    difference |= static_cast<unsigned char>(token[i]) ^ static_cast<unsigned char>(token_[i]);
  }
  return difference == 0;
}

}  // namespace profd
