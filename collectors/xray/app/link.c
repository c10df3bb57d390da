#include "collectors/xray/app/link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/xray/app/patching.h"
#include "collectors/xray/app/recorder.h"
#include "collectors/xray/app/region.h"

/* The app's thread-local data takes a part of it. */
enum { kStackBytes = 256 * 1024 };

/* Held while a command is executed and during a fork, so that no child is made while its functions
 * are partly patched. */
static pthread_mutex_t command_mutex = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static uint32_t current_session;

static const char* socket_path(void) {
  const char* const named = secure_getenv("PROFD_XRAY_SOCKET");
  return named != NULL && named[0] == '/' ? named : PROFD_XRAY_APP_SOCKET;
}

static bool send_answer(const struct profd_xray_answer* answer, int fd) {
  struct iovec bytes = {.iov_base = (void*)answer, .iov_len = sizeof *answer};
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control;
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (fd >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    struct cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *answer;
}

static void end_session(void) {
  if (current_session == 0) return;
  profd_xray_unpatch();
  profd_xray_record_for(0);
  profd_xray_leave_mode();
  current_session = 0;
}

static bool begin_session(uint32_t session) {
  end_session();
  struct profd_xray_answer answer = {.kind = PROFD_XRAY_REFUSED, .session = session};
  answer.value = profd_xray_enter_mode();
  if (answer.value == 0 && !profd_xray_region_open(profd_xray_clock_of_host())) {
    profd_xray_leave_mode();
    answer.value = PROFD_XRAY_NO_MEMORY;
  }
  if (answer.value != 0) return send_answer(&answer, -1);
  profd_xray_region_reset();
  current_session = session;
  profd_xray_record_for(session);
  answer.kind = PROFD_XRAY_READY;
  answer.function = profd_xray_last_function();
  answer.first_function = profd_xray_address_of_first();
  return send_answer(&answer, profd_xray_memory.fd);
}

static bool patch(const struct profd_xray_command* command) {
  struct profd_xray_answer answer = {.kind = PROFD_XRAY_PATCHED, .session = command->session};
  if (command->session == current_session)
    answer.value = profd_xray_patch(command->functions, command->count);
  return send_answer(&answer, -1);
}

static bool end(const struct profd_xray_command* command) {
  const struct profd_xray_answer answer = {.kind = PROFD_XRAY_ENDED, .session = command->session};
  if (command->session == current_session) end_session();
  return send_answer(&answer, -1);
}

static bool is_whole(const struct profd_xray_command* command, ssize_t bytes) {
  const size_t head = offsetof(struct profd_xray_command, functions);
  return bytes >= (ssize_t)head && command->count <= PROFD_XRAY_FUNCTIONS_A_PACKET &&
         (size_t)bytes == head + command->count * sizeof command->functions[0];
}

/* False: the connection is to be closed. */
static bool execute(const struct profd_xray_command* command) {
  switch (command->kind) {
    case PROFD_XRAY_BEGIN:
      return command->session != 0 && begin_session(command->session);
    case PROFD_XRAY_PATCH:
      return patch(command);
    case PROFD_XRAY_END:
      return end(command);
    case PROFD_XRAY_RELEASE:
      if (current_session == 0) profd_xray_region_release();
      return true;
    default:
      return false;
  }
}

static void serve(void) {
  static struct profd_xray_command
      command; /* too large for the stack of the one thread that uses it */
  bool is_open = true;
  while (is_open) {
    const ssize_t bytes = recv(connection, &command, sizeof command, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0 || !is_whole(&command, bytes)) return;
    pthread_mutex_lock(&command_mutex);
    is_open = execute(&command);
    pthread_mutex_unlock(&command_mutex);
  }
}

static void disconnect(void) {
  pthread_mutex_lock(&command_mutex);
  end_session();
  profd_xray_region_release();
  close(connection);
  connection = -1;
  pthread_mutex_unlock(&command_mutex);
}

/* A profd that closes the connection at once is not asked again for some seconds. */
static void wait_before_next(time_t connected) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const struct timespec pause = {.tv_sec = 4};
  if (now.tv_sec - connected < 2) nanosleep(&pause, NULL);
}

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

/* Connects to profd's socket. Sleeps in inotify, on the socket's directory or the nearest existing
 * one above it, until the socket accepts a connection. -1: the system can't watch directories. */
static int find_profd(const char* path) {
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

static void* run_link(void* unused) {
  (void)unused;
  prctl(PR_SET_NAME, "profd-xray");
  for (;;) {
    const int found = find_profd(socket_path());
    if (found < 0) return NULL;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&command_mutex);
    connection = found;
    pthread_mutex_unlock(&command_mutex);
    serve();
    disconnect();
    wait_before_next(now.tv_sec);
  }
}

/* The thread blocks all signals, so that the app's own threads get them. */
static bool start_thread(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&thread, &attributes, run_link, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

static void before_fork(void) { pthread_mutex_lock(&command_mutex); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&command_mutex); }

/* The child is an app of its own. It drops its parent's session, memory and connection, which it
 * would keep alive otherwise. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&command_mutex, NULL);
  if (connection >= 0) close(connection);
  connection = -1;
  profd_xray_recorder_forget();
  end_session();
  profd_xray_region_abandon();
  start_thread();
}

bool profd_xray_link_start(void) {
  return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0 &&
         start_thread();
}
