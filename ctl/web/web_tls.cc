#include "ctl/web/web_tls.h"

#include <utility>

#include <boost/asio/ssl/context_base.hpp>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

Error invalid_pem(const std::string& path, const boost::system::error_code& error) {
  return fail(ErrorCode::kMalformed, path + " can't be used: " + error.message(),
              "give a certificate and its key without a passphrase, both as PEM");
}

}  // namespace

Result<WebTls> WebTls::open(const std::string& certificate, const std::string& key) {
  const auto chain = read_whole_file(certificate, AT_FDCWD, kMaxPemBytes);
  if (!chain) return of_own_file(chain.error());
  const auto secret = read_whole_file(key, AT_FDCWD, kMaxPemBytes);
  if (!secret) return of_own_file(secret.error());
  WebTls tls{ssl::context(ssl::context::tls_server)};
  boost::system::error_code error;
  tls.context_.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                               ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                           error);
  if (!error) tls.context_.use_certificate_chain(boost::asio::buffer(*chain), error);
  if (error) return invalid_pem(certificate, error);
  // Without this, OpenSSL asks a terminal for a passphrase.
  tls.context_.set_password_callback([](std::size_t, ssl::context::password_purpose) { return ""; },
                                     error);
  tls.context_.use_private_key(boost::asio::buffer(*secret), ssl::context::pem, error);
  if (error) return invalid_pem(key, error);
  if (::SSL_CTX_check_private_key(tls.context_.native_handle()) == 1) return tls;
  return fail(ErrorCode::kMalformed, key + " is not the key of " + certificate,
              "give the key that the certificate was made for");
}

bool WebTls::is_for(std::string_view host) const {
  X509* const certificate =
      ::SSL_CTX_get0_certificate(const_cast<ssl::context&>(context_).native_handle());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string name(host);
  return ::X509_check_ip_asc(certificate, name.c_str(), 0) == 1 ||
         ::X509_check_host(certificate, name.data(), name.size(), 0, nullptr) == 1;
}

std::string WebTls::name() const {
  X509* const certificate =
      ::SSL_CTX_get0_certificate(const_cast<ssl::context&>(context_).native_handle());
  auto* const names = static_cast<GENERAL_NAMES*>(
      ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string found;
  for (int i = 0; found.empty() && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS) continue;
    const auto* const text =
        reinterpret_cast<const char*>(::ASN1_STRING_get0_data(name->d.dNSName));
    found.assign(text, static_cast<std::size_t>(::ASN1_STRING_length(name->d.dNSName)));
    if (found.starts_with('*') || !is_for(found)) found.clear();
  }
  GENERAL_NAMES_free(names);
  return found;
}

}  // namespace profd
