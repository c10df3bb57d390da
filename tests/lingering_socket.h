// A descriptor whose last close takes long, and how a client sends it.

#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "formats/base/unique_fd.h"

namespace profd::test {

// Two ends of a TCP connection: the first has unsent data and lingers, the second does not read.
struct LingeringSocket {
  UniqueFd lingers;
  UniqueFd reader;
};

inline LingeringSocket make_lingering(int seconds) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  LingeringSocket made;
  made.lingers.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), generic, sizeof address) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &size) != 0 ||
      ::connect(made.lingers.get(), generic, sizeof address) != 0) {
    return {};
  }
  made.reader.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string data(65536, 'x');
  while (::send(made.lingers.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  const linger option{.l_onoff = 1, .l_linger = seconds};
  ::setsockopt(made.lingers.get(), SOL_SOCKET, SO_LINGER, &option, sizeof option);
  return made;
}

// Sends one byte with it.
inline bool send_descriptor(int socket, int descriptor) {
  char byte = 'G';
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

}  // namespace profd::test
