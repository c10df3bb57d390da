/* A hostile program: sends app.sock a descriptor whose last close takes long, then connects and
 * closes many times.
 *
 *     app_descriptors SOCKET CONNECTIONS LINGERING
 *
 * Sends LINGERING descriptors, each on a connection of its own: TCP sockets with unsent data that
 * linger for a minute. Prints "sent" after that, and "closed" after the last connection. Then it
 * keeps the other ends of the TCP connections, so that they linger, until it is killed. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_SECONDS 60

static void must(int ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(1);
}

static int connect_to_profd(const char* path) {
  const struct timeval limit = {.tv_sec = 30};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

  must(fd >= 0 && strlen(path) < sizeof(address.sun_path), "socket");
  strcpy(address.sun_path, path);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  must(connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0, "connect");
  return fd;
}

/* The other end stays open, and is never read. */
static int make_lingering(void) {
  static char data[65536];
  const struct linger option = {.l_onoff = 1, .l_linger = LINGER_SECONDS};
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);

  must(bind(listener, (struct sockaddr*)&address, size) == 0 && listen(listener, 1) == 0, "listen");
  must(getsockname(listener, (struct sockaddr*)&address, &size) == 0, "getsockname");
  must(connect(fd, (struct sockaddr*)&address, size) == 0, "connect to itself");
  must(accept(listener, NULL, NULL) >= 0, "accept");
  close(listener);
  while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0) {
  }
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, sizeof(option));
  return fd;
}

static void send_descriptor(int connection, int fd) {
  char byte = 'x';
  struct iovec bytes = {.iov_base = &byte, .iov_len = 1};
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
  struct cmsghdr* const header = CMSG_FIRSTHDR(&message);

  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(fd));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  must(sendmsg(connection, &message, MSG_NOSIGNAL) == 1, "sendmsg");
}

int main(int argc, char** argv) {
  const struct rlimit files = {.rlim_cur = 1024, .rlim_max = 1024};

  must(argc == 4, "usage");
  setrlimit(RLIMIT_NOFILE, &files);
  for (int i = 0; i < atoi(argv[3]); i++) {
    const int connection = connect_to_profd(argv[1]);
    const int fd = make_lingering();

    send_descriptor(connection, fd);
    close(fd);
    close(connection);
  }
  puts("sent");
  fflush(stdout);
  for (int i = 0; i < atoi(argv[2]); i++) close(connect_to_profd(argv[1]));
  puts("closed");
  fflush(stdout);
  pause();
  return 0;
}
