// A client that sends any bytes, for requests that no library would send.

#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd {

struct RawAnswer {
  int status = 0;  // 0: the connection ended without one
  std::string header;
  std::string body;
};

class RawClient {
 public:
  RawClient() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{.tv_sec = kHangMs / 1000, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  explicit RawClient(const std::filesystem::path& socket) : RawClient() { connect(socket); }

  void connect(const std::filesystem::path& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket.native(), address.sun_path);
    if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("could not connect to " + socket.string());
    }
  }

  // The kernel records the credentials of the connecting thread, so a thread can have other ids.
  void connect_as(const std::filesystem::path& socket, uid_t uid, gid_t gid,
                  const std::vector<gid_t>& groups = {}) {
    std::thread([&] {
      const bool became = ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0 &&
                          ::syscall(SYS_setresgid, gid, gid, gid) == 0 &&
                          ::syscall(SYS_setresuid, uid, uid, uid) == 0;
      if (became) connect(socket);
    }).join();
  }

  [[nodiscard]] int fd() const { return fd_.get(); }

  // False: the other end has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // One answer: its header, and as many bytes as Content-Length says, or fewer if the connection
  // ends.
  RawAnswer receive() {
    while (received_.find("\r\n\r\n") == std::string::npos) {
      if (!receive_more()) return {};
    }
    RawAnswer answer;
    const std::size_t end = received_.find("\r\n\r\n") + 4;
    answer.header = received_.substr(0, end);
    answer.status = std::stoi(answer.header.substr(9, 3));
    const std::size_t length_at = answer.header.find("Content-Length: ");
    const std::size_t length =
        length_at == std::string::npos ? 0 : std::stoul(answer.header.substr(length_at + 16));
    while (received_.size() < end + length && receive_more()) {
    }
    answer.body = received_.substr(end, length);
    received_.erase(0, end + length);
    return answer;
  }

  // Waits for some bytes, which the next receive() returns. False: the connection has ended.
  bool receive_more() {
    char bytes[65536];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  RawAnswer ask(std::string_view method, std::string_view target, std::string_view body = {}) {
    std::string request(method);
    request.append(" ").append(target).append(" HTTP/1.1\r\nHost: profd\r\nContent-Length: ");
    request.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
    send(request);
    return receive();
  }

  // Whether the other end closed, with nothing more to read. Waits for it.
  bool is_closed() { return received_.empty() && !receive_more() && received_.empty(); }

  // Whether the other end closed, also with bytes left to read. Waits for it.
  [[nodiscard]] bool is_disconnected() const {
    pollfd end{.fd = fd_.get(), .events = 0, .revents = 0};
    return ::poll(&end, 1, kHangMs) == 1 && (end.revents & POLLHUP) != 0;
  }

 private:
  // A guard against a hanging test, far above what any answer takes.
  static constexpr int kHangMs = 20'000;

  UniqueFd fd_;
  std::string received_;
};

}  // namespace profd
