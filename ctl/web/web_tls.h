// The certificate of a server that other hosts can reach.

#pragma once

#include <string>
#include <string_view>

#include <boost/asio/ssl/context.hpp>

#include "formats/base/result.h"

namespace profd {

class WebTls {
 public:
  // Files in PEM form; the certificate's may have others of its chain. kIo, kMalformed, ...:
  // with the file.
  [[nodiscard]] static Result<WebTls> open(const std::string& certificate, const std::string& key);

  [[nodiscard]] boost::asio::ssl::context& context() { return context_; }

  // Whether the certificate is for a host: a name, or an address as in a URL ("[::1]"). A browser
  // that reaches this server by another name refuses it, so that no other site can have that name.
  [[nodiscard]] bool is_for(std::string_view host) const;

  // A name of the certificate; empty: it has only addresses, or patterns.
  [[nodiscard]] std::string name() const;

 private:
  explicit WebTls(boost::asio::ssl::context context) : context_(std::move(context)) {}

  boost::asio::ssl::context context_;
};

}  // namespace profd
