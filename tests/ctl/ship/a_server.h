// A server on 127.0.0.1 that does what a test wants, connection by connection.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <openssl/ssl.h>

#include "formats/base/unique_fd.h"
#include "tests/ctl/ship/a_certificate.h"

namespace profd::test {

struct FreeTls {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  void operator()(SSL* session) const { ::SSL_free(session); }
};

// What a server of TLS has. With `clients`, it wants a certificate of that CA.
class ServerTls {
 public:
  explicit ServerTls(const ACertificate& own, int version = TLS1_3_VERSION,
                     const ACertificate* clients = nullptr)
      : context_(::SSL_CTX_new(::TLS_server_method())) {
    ::SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    ::SSL_CTX_use_certificate(context_.get(), own.certificate());
    ::SSL_CTX_use_PrivateKey(context_.get(), own.key());
    if (clients == nullptr) return;
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                         nullptr);
    ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context_.get()), clients->certificate());
  }
  [[nodiscard]] SSL_CTX* get() const { return context_.get(); }

 private:
  std::unique_ptr<SSL_CTX, FreeTls> context_;
};

// One connection, closed at the end, by TLS without a notice.
class Peer {
 public:
  explicit Peer(UniqueFd socket) : socket_(std::move(socket)) {
    const timeval guard{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof guard);
  }

  // False: the handshake failed.
  bool start_tls(const ServerTls& tls) {
    session_.reset(::SSL_new(tls.get()));
    ::SSL_set_fd(session_.get(), socket_.get());
    return ::SSL_accept(session_.get()) == 1;
  }
  [[nodiscard]] std::string server_name() const {
    const char* const name = ::SSL_get_servername(session_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }
  void notify_close() { ::SSL_shutdown(session_.get()); }
  // Closes the connection, and returns when the client's kernel knows.
  void end() {
    ::shutdown(socket_.get(), SHUT_WR);
    tcp_info info{};
    do {
      socklen_t size = sizeof info;
      std::this_thread::yield();
      if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    } while (info.tcpi_state == TCP_FIN_WAIT1);
  }

  // "": there are no more.
  std::string read() {
    std::array<char, 65536> bytes;
    const auto count =
        session_ ? ::SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()))
                 : ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    return count <= 0 ? "" : std::string(bytes.data(), static_cast<std::size_t>(count));
  }
  // A header, and what came with it.
  std::string read_header() {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      const std::string more = read();
      if (more.empty()) break;
      text += more;
    }
    return text;
  }
  // A header with its body.
  std::string read_request() {
    std::string text = read_header();
    const std::string field = "Content-Length: ";
    const std::size_t length = text.find(field);
    if (length == std::string::npos) return text;
    const std::size_t size =
        text.find("\r\n\r\n") + 4 + std::stoul(text.substr(length + field.size()));
    while (text.size() < size) {
      const std::string more = read();
      if (more.empty()) break;
      text += more;
    }
    return text;
  }
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count =
          session_ ? ::SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size()))
                   : ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  // Until the client closes the connection.
  void await_close() {
    while (!read().empty()) continue;
  }

 private:
  UniqueFd socket_;
  std::unique_ptr<SSL, FreeTls> session_;
};

class Server {
 public:
  using Flow = std::function<void(Peer& peer)>;

  // A flow for each connection, in their order; further ones are closed at once.
  explicit Server(std::vector<Flow> flows) : flows_(std::move(flows)) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), 8) != 0 ||
        ::getsockname(listener_.get(), generic, &size) != 0) {
      throw std::runtime_error("no server");
    }
    port_ = std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] const std::string& port() const { return port_; }
  [[nodiscard]] std::string url(const std::string& scheme = "http",
                                const std::string& host = "127.0.0.1") const {
    return scheme + "://" + host + ":" + port_;
  }
  [[nodiscard]] int connections() const { return connections_; }
  // Connections that have ended.
  void await_ended(int count) const {
    while (ended_ < count) std::this_thread::yield();
  }

 private:
  void serve() {
    // OpenSSL writes to connections that the client has closed.
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    for (std::size_t i = 0;; ++i) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket.valid()) return;
      ++connections_;
      {
        Peer peer(std::move(socket));
        if (i < flows_.size()) flows_[i](peer);
      }
      ++ended_;
    }
  }

  std::vector<Flow> flows_;
  UniqueFd listener_;
  std::string port_;
  std::atomic<int> connections_ = 0;
  std::atomic<int> ended_ = 0;
  std::thread thread_;
};

}  // namespace profd::test
