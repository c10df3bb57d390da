#include "ctl/ship/transport/tls_session.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

std::string reason_text(unsigned long code) {
  const char* const text = ::ERR_reason_error_string(code);
  return text == nullptr ? "unknown error" : text;
}

// For a key with a passphrase: OpenSSL would ask a terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*is_writing*/, void* /*data*/) { return 0; }

int note_request(SSL* /*session*/, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return 1;
}

// OpenSSL's "application data" of a session.
constexpr int kSessionData = 0;

// A certificate that is refused is not kept in the session.
int note_certificate(int is_valid, X509_STORE_CTX* check) {
  const X509* const certificate = ::X509_STORE_CTX_get_current_cert(check);
  const auto* const session = static_cast<const SSL*>(
      ::X509_STORE_CTX_get_ex_data(check, ::SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (is_valid == 1 || certificate == nullptr || session == nullptr) return is_valid;
  if (auto* const lacks_names = static_cast<bool*>(::SSL_get_ex_data(session, kSessionData))) {
    *lacks_names = ::X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0;
  }
  return is_valid;
}

Result<void> check_readable(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.valid()) return {};
  const Error error = fail_errno("could not open " + path);
  return fail(error.code, error.message, "give a PEM file that the user of profctl ship can read");
}

Error invalid_pem_file(const std::string& path, const std::string& hint) {
  return fail(ErrorCode::kMalformed,
              path + " can't be used: " + reason_text(::ERR_peek_last_error()), hint);
}

Result<void> load_cas(SSL_CTX* context, const std::string& path) {
  if (path.empty()) {
    if (::SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return fail(ErrorCode::kIo, "could not find the CAs of this host", "name them with ca_file");
  }
  if (auto readable = check_readable(path); !readable) return readable;
  if (::SSL_CTX_load_verify_file(context, path.c_str()) == 1) return {};
  return invalid_pem_file(path, "give the certificates of CAs as PEM");
}

Result<void> load_certificate(SSL_CTX* context, const TlsSettings& settings) {
  if (settings.cert_file.empty()) return {};
  for (const std::string* path : {&settings.cert_file, &settings.key_file}) {
    if (auto readable = check_readable(*path); !readable) return readable;
  }
  if (::SSL_CTX_use_certificate_chain_file(context, settings.cert_file.c_str()) != 1) {
    return invalid_pem_file(settings.cert_file, "give a certificate, and its chain, as PEM");
  }
  if (::SSL_CTX_use_PrivateKey_file(context, settings.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    return invalid_pem_file(settings.key_file,
                            "give the key of the certificate, without a passphrase, as PEM");
  }
  return {};
}

bool is_for_another_host(long verdict) {
  return verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

Error nameless_certificate(long verdict, const std::string& host) {
  const char* const kind = verdict == X509_V_ERR_IP_ADDRESS_MISMATCH ? "IP:" : "DNS:";
  return fail(ErrorCode::kUnavailable,
              "the certificate of " + host + " is for another host: it has no subjectAltName",
              "make one with subjectAltName=" + (kind + host) +
                  ": a common name (CN) stands for no address, and for one name at most");
}

// What X509_verify_cert(3) has found.
Error certificate_error(long verdict, const std::string& host) {
  const std::string certificate = "the certificate of " + host;
  switch (verdict) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fail(ErrorCode::kUnavailable, certificate + " has expired",
                  "renew it, or set the clock of this host");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fail(ErrorCode::kUnavailable, certificate + " is not valid yet",
                  "set the clock of this host");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fail(ErrorCode::kUnavailable, certificate + " is for another host",
                  "give a name of the certificate in the url, or a certificate for this name");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return fail(ErrorCode::kUnavailable, certificate + " is of a CA that this host does not know",
                  "give the CA with ca_file, or add it to those of this host");
    default:
      return fail(ErrorCode::kUnavailable,
                  certificate + " is refused: " + ::X509_verify_cert_error_string(verdict),
                  "renew it, or give its CA with ca_file");
  }
}

bool refuses_certificate(int reason) {
  constexpr std::array kAlerts{
      SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,     SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
      SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
      SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_TLSV1_ALERT_UNKNOWN_CA,
      SSL_R_TLSV1_ALERT_ACCESS_DENIED,       SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED};
  return std::ranges::find(kAlerts, reason) != kAlerts.end();
}

}  // namespace

TlsContext::FileStamp TlsContext::stamp_of(const std::string& path) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = status.st_size,
          .changed_ns = status.st_ctim.tv_sec * kSecond + status.st_ctim.tv_nsec};
}

std::vector<TlsContext::FileStamp> TlsContext::stamps_of(const TlsSettings& settings) {
  return {stamp_of(settings.ca_file), stamp_of(settings.cert_file), stamp_of(settings.key_file)};
}

Result<TlsContext> TlsContext::open(const TlsSettings& settings) {
  TlsContext tls;
  tls.settings_ = settings;
  tls.stamps_ = stamps_of(settings);  // before they are read, so that no change is missed
  ::ERR_clear_error();
  tls.context_.reset(::SSL_CTX_new(::TLS_client_method()));
  SSL_CTX* const context = tls.get();
  if (context == nullptr) throw std::bad_alloc();
  (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  (void)::SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, note_certificate);
  ::SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (auto loaded = load_cas(context, settings.ca_file); !loaded) return loaded.error();
  if (auto loaded = load_certificate(context, settings); !loaded) return loaded.error();
  return tls;
}

TlsSession::TlsSession(const TlsContext& context, const std::string& host)
    : host_(host), session_(::SSL_new(context.get())) {
  if (!session_) throw std::bad_alloc();
  input_ = ::BIO_new(::BIO_s_mem());
  output_ = ::BIO_new(::BIO_s_mem());
  if (input_ == nullptr || output_ == nullptr) throw std::bad_alloc();
  ::SSL_set_bio(session_.get(), input_, output_);
  ::SSL_set_connect_state(session_.get());
  ::SSL_set_cert_cb(session_.get(), note_request, &was_asked_);
  if (::SSL_set_ex_data(session_.get(), kSessionData, &lacks_names_) != 1) throw std::bad_alloc();
  ::SSL_set_hostflags(session_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(session_.get()), host.c_str()) == 1) return;
  // A name may end in a dot, which no certificate has.
  std::string name = host;
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  if (::SSL_set1_host(session_.get(), name.c_str()) != 1) throw std::bad_alloc();
  (void)SSL_set_tlsext_host_name(session_.get(), name.c_str());
}

TlsSession::Step TlsSession::handshake() {
  ::ERR_clear_error();
  const Step step = step_of(::SSL_do_handshake(session_.get()));
  is_open_ = step == Step::kDone;
  return step;
}

TlsSession::Step TlsSession::write(std::string_view plain) {
  ::ERR_clear_error();
  std::size_t written = 0;
  return step_of(::SSL_write_ex(session_.get(), plain.data(), plain.size(), &written));
}

TlsSession::Step TlsSession::read(std::span<char> plain, std::size_t& count) {
  ::ERR_clear_error();
  return step_of(::SSL_read_ex(session_.get(), plain.data(), plain.size(), &count));
}

TlsSession::Step TlsSession::peek() {
  ::ERR_clear_error();
  char byte = 0;
  std::size_t count = 0;
  return step_of(::SSL_peek_ex(session_.get(), &byte, 1, &count));
}

void TlsSession::close() {
  ::ERR_clear_error();
  if (std::exchange(is_open_, false)) (void)::SSL_shutdown(session_.get());
}

bool TlsSession::awaits_verdict() const {
  return was_asked_ && ::SSL_version(session_.get()) >= TLS1_3_VERSION;
}

void TlsSession::put_input(std::string_view bytes) {
  (void)::BIO_write(input_, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsSession::take_output() {
  std::string bytes(::BIO_ctrl_pending(output_), '\0');
  if (!bytes.empty()) (void)::BIO_read(output_, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

TlsSession::Step TlsSession::step_of(int result) {
  if (result == 1) return Step::kDone;
  switch (::SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step::kWantsInput;
    case SSL_ERROR_ZERO_RETURN:
      return Step::kClosed;
    default:
      is_open_ = false;
      error_ = explain();
      return Step::kFailed;
  }
}

Error TlsSession::explain() const {
  const long verdict = ::SSL_get_verify_result(session_.get());
  if (lacks_names_ && is_for_another_host(verdict)) return nameless_certificate(verdict, host_);
  if (verdict != X509_V_OK) return certificate_error(verdict, host_);
  const unsigned long code = ::ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (refuses_certificate(reason)) {
    return fail(ErrorCode::kPermissionDenied,
                host_ + " refuses the certificate of this host: " + reason_text(code),
                "give one that it accepts, with cert_file and key_file");
  }
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
      return fail(ErrorCode::kUnavailable, host_ + " does not speak TLS there",
                  "give its port for TLS in the url, or an http url");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return fail(ErrorCode::kUnavailable, host_ + " has no TLS of version 1.2 or later",
                  "enable TLS 1.2 there");
    default:
      return fail(ErrorCode::kUnavailable, "the TLS of " + host_ + " failed: " + reason_text(code));
  }
}

}  // namespace profd
