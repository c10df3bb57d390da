#include "collectors/xray/app/find_profd.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <stdbool.h>
#include <string.h>

/* A socket file appears a moment before the daemon listens on it. */
enum { kTriesAfterAnEvent = 25, kMillisecondsBetweenTries = 200 };

static int connect_to(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return -1;
  strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

/* Watches the directory of `path`, or the nearest one above it that can be watched. */
static bool watch_above(int watcher, const char* path) {
  char directory[sizeof((struct sockaddr_un*)0)->sun_path];
  if (strlen(path) >= sizeof directory) return false;
  strcpy(directory, path);
  char* slash = strrchr(directory, '/');
  while (slash != NULL) {
    slash[slash == directory ? 1 : 0] = '\0';
    if (inotify_add_watch(watcher, directory,
                          IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) >=
        0) {
      return true;
    }
    slash = slash == directory ? NULL : strrchr(directory, '/');
  }
  return false;
}

/* Waits for an event in the directory, up to the limit; -1: without a limit. */
static bool wait_for_event(int watcher, int milliseconds) {
  struct pollfd event = {.fd = watcher, .events = POLLIN};
  return poll(&event, 1, milliseconds) > 0;
}

int profd_xray_find_profd(const char* path) {
  int tries_left = 0;
  for (;;) {
    /* The watch is set before each connect(), so no event in between is missed, and directories may
     * appear and disappear. */
    const int watcher = inotify_init1(IN_CLOEXEC);
    if (watcher < 0) return -1;
    const bool is_watched = watch_above(watcher, path);
    const int fd = connect_to(path);
    if (fd < 0 && is_watched) {
      if (wait_for_event(watcher, tries_left > 0 ? kMillisecondsBetweenTries : -1)) {
        tries_left = kTriesAfterAnEvent;
      } else {
        --tries_left;
      }
    }
    close(watcher);
    if (fd >= 0 || !is_watched) return fd;
  }
}
