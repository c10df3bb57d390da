// TLS of a client, 1.2 or later, by OpenSSL. The host of the other side is verified.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ssl.h>

#include "ctl/ship/transport/http_endpoint.h"
#include "formats/base/result.h"

namespace profd {

// What the connections to an endpoint have in common.
class TlsContext {
 public:
  // Reads the files. kNotFound, kMalformed, ...: with the file, and what to do.
  [[nodiscard]] static Result<TlsContext> open(const TlsSettings& settings);

  // Whether the files are those that were read. The CAs of the system are read when they are
  // needed.
  [[nodiscard]] bool is_current() const { return stamps_ == stamps_of(settings_); }

  [[nodiscard]] SSL_CTX* get() const { return context_.get(); }

 private:
  // What changes when a file is written, or replaced by another one.
  struct FileStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // there is none
    std::int64_t changed_ns = 0;

    friend bool operator==(const FileStamp&, const FileStamp&) = default;
  };
  struct FreeContext {
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  };

  TlsContext() = default;
  [[nodiscard]] static FileStamp stamp_of(const std::string& path);
  [[nodiscard]] static std::vector<FileStamp> stamps_of(const TlsSettings& settings);

  TlsSettings settings_;
  std::vector<FileStamp> stamps_;
  std::unique_ptr<SSL_CTX, FreeContext> context_;
};

// One connection, between plain bytes and those of its socket, which it does not know: after each
// step, the output is to be sent.
class TlsSession {
 public:
  enum class Step : std::uint8_t {
    kDone,
    kWantsInput,  // again after put_input()
    kClosed,      // the other side has ended its bytes
    kFailed,      // with error()
  };

  // The certificate of the other side must be for `host`, a name or an address.
  TlsSession(const TlsContext& context, const std::string& host);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession() = default;

  [[nodiscard]] Step handshake();
  // At most 16 KiB.
  [[nodiscard]] Step write(std::string_view plain);
  [[nodiscard]] Step read(std::span<char> plain, std::size_t& count);
  // kDone: there are plain bytes to read.
  [[nodiscard]] Step peek();
  // Adds to the output that no more bytes follow.
  void close();

  void put_input(std::string_view bytes);
  [[nodiscard]] std::string take_output();

  // The other side wants a certificate of this one, and will refuse it, or that there is none, only
  // after the handshake has ended here, as with TLS 1.3.
  [[nodiscard]] bool awaits_verdict() const;
  // kPermissionDenied: it refuses the one that it got, or that it got none, and so all requests of
  // this connection.
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  struct FreeSession {
    void operator()(SSL* session) const { ::SSL_free(session); }
  };

  [[nodiscard]] Step step_of(int result);
  [[nodiscard]] Error explain() const;

  std::string host_;
  std::unique_ptr<SSL, FreeSession> session_;
  BIO* input_ = nullptr;  // both are the session's
  BIO* output_ = nullptr;
  bool was_asked_ = false;
  bool lacks_names_ = false;  // the certificate that was refused has no subjectAltName
  bool is_open_ = false;      // close() has a meaning
  Error error_;
};

}  // namespace profd
