// Who may read what profctl serves: a browser that has the token, and no page of another site.
//
// Any page that a browser shows can send requests to 127.0.0.1. So a request needs a random token,
// which is printed for the caller alone; a Host that is the address that was listened on, since
// another name may be bound to it (DNS rebinding); and no sign that another site sent it. A link is
// followed all the same: the site that has it cannot read what it leads to.
//
// Where this host alone is listened on, the port of Host does not count: 'ssh -L' has one of its
// own. Origin has to have the port of Host all the same.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace profd {

struct WebHead {
  std::string_view method;
  std::string_view host;
  std::string_view origin;  // empty: there is none
  // The Sec-Fetch headers; empty: the client is no browser.
  std::string_view fetch_site;
  std::string_view fetch_mode;
  std::string_view fetch_dest;
};

struct WebRefusal {
  unsigned status = 403;
  std::string why;
};

class WebAccess {
 public:
  // `is_own_host`: of the text of Host, "127.0.0.1:8300". `scheme`: "http" or "https". `hosts`:
  // which ones are, for people.
  using IsOwnHost = std::function<bool(std::string_view host)>;
  WebAccess(std::string token, std::string scheme, IsOwnHost is_own_host, std::string hosts)
      : token_(std::move(token)),
        scheme_(std::move(scheme)),
        is_own_host_(std::move(is_own_host)),
        hosts_(std::move(hosts)) {}

  // 128 random bits in hexadecimal.
  [[nodiscard]] static std::string make_token();

  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] const std::string& scheme() const { return scheme_; }

  // Nothing: the request is answered.
  [[nodiscard]] std::optional<WebRefusal> refuse(const WebHead& head) const;
  // Takes the same time whatever `token` has in common with the right one.
  [[nodiscard]] bool has_token(std::string_view token) const;

 private:
  std::string token_;
  std::string scheme_;
  IsOwnHost is_own_host_;
  std::string hosts_;
};

}  // namespace profd
