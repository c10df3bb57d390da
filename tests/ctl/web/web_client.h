// A server of the page on a thread of its own, and a client that sends what it likes.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "ctl/web/web_server.h"
#include "formats/base/unique_fd.h"

namespace profd::test {

struct WebAnswer {
  int status = 0;  // 0: the server closed the connection
  std::map<std::string, std::string> headers;
  std::string body;
};

inline UniqueFd connect_to_port(std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("could not connect");
  }
  return socket;
}

// Up to the end of the connection.
inline std::string read_to_end(int socket) {
  std::string text;
  std::string part(65536, '\0');
  for (ssize_t got = 0; (got = ::read(socket, part.data(), part.size())) > 0;) {
    text.append(part, 0, static_cast<std::size_t>(got));
  }
  return text;
}

inline WebAnswer parse_answer(const std::string& text) {
  WebAnswer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.status = std::stoi(text.substr(9, 3));
  answer.body = text.substr(end + 4);
  for (std::size_t at = text.find("\r\n") + 2; at < end;) {
    const std::size_t line_end = text.find("\r\n", at);
    const std::string line = text.substr(at, line_end - at);
    answer.headers[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
    at = line_end + 2;
  }
  return answer;
}

class RunningWeb {
 public:
  explicit RunningWeb(const WebServer::Answer& answer, const WebLimits& limits = {},
                      std::shared_ptr<WebTls> tls = nullptr,
                      const std::string& address = "127.0.0.1")
      : server_(WebServer::open(address, 0, answer, std::move(tls), limits).value()),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this] { server_->run(stop_.get()); }) {}
  RunningWeb(const RunningWeb&) = delete;
  RunningWeb& operator=(const RunningWeb&) = delete;
  ~RunningWeb() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] std::string host() const {
    const std::size_t start = url().find("://") + 3;
    return url().substr(start, url().find("/?") - start);
  }
  [[nodiscard]] std::string token() const { return url().substr(url().find('=') + 1); }
  [[nodiscard]] std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(host().substr(host().find(':') + 1)));
  }

  // Sends the bytes and reads to the end.
  [[nodiscard]] WebAnswer send(const std::string& bytes) const {
    const UniqueFd socket = connect_to_port(port());
    if (::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return {};
    return parse_answer(read_to_end(socket.get()));
  }

  // `target` is without the token. `headers` are whole lines.
  [[nodiscard]] WebAnswer get(const std::string& target, const std::string& headers = "") const {
    const std::string mark = target.find('?') == std::string::npos ? "?" : "&";
    return send("GET " + target + mark + "token=" + token() + " HTTP/1.1\r\nHost: " + host() +
                "\r\nConnection: close\r\n" + headers + "\r\n");
  }

 private:
  std::unique_ptr<WebServer> server_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace profd::test
