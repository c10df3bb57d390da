// Put before libc by LD_PRELOAD: lets the Nth call that changes a file below a directory fail, and
// shifts the time of day. What to do comes from a page shared with the test (shim.h).

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static struct profd_shim* page;

// Child processes (parsers) are left alone: they may not even ask where a file is.
__attribute__((constructor)) static void attach(void) {
  const char* path = getenv("PROFD_SHIM");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void* mapped;

  unsetenv("LD_PRELOAD");
  unsetenv("PROFD_SHIM");
  if (fd < 0) return;
  mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) page = mapped;
}

static int is_below(const char* path) {
  size_t length = strlen(page->directory);

  return length && strncmp(path, page->directory, length) == 0 && path[length] == '/';
}

static int names_ours(int fd) {
  char link[64], target[PATH_MAX];
  ssize_t bytes;

  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  bytes = readlink(link, target, sizeof(target) - 2);
  if (bytes <= 0) return 0;
  target[bytes] = '/';  // the directory itself is ours too
  target[bytes + 1] = 0;
  return is_below(target);
}

static int path_is_ours(int directory, const char* path) {
  if (path[0] == '/') return is_below(path);
  return directory != AT_FDCWD && names_ours(directory);
}

// Counts a call; whether it is the one to fail.
static enum profd_shim_fault fault_of_call(void) {
  uint32_t number = __atomic_add_fetch(&page->calls, 1, __ATOMIC_SEQ_CST);

  if (number != __atomic_load_n(&page->fail_at, __ATOMIC_SEQ_CST)) return PROFD_SHIM_NONE;
  __atomic_add_fetch(&page->struck, 1, __ATOMIC_SEQ_CST);
  return page->fault;
}

static int strikes(int ours) {
  enum profd_shim_fault fault = page && ours ? fault_of_call() : PROFD_SHIM_NONE;

  if (fault == PROFD_SHIM_NONE || fault == PROFD_SHIM_SHORT) return 0;
  errno = fault == PROFD_SHIM_EIO ? EIO : ENOSPC;
  return 1;
}

// Bytes to write now: all, half, or -1 with errno set.
static ssize_t allowed(int fd, size_t bytes) {
  enum profd_shim_fault fault = page && names_ours(fd) ? fault_of_call() : PROFD_SHIM_NONE;

  if (fault == PROFD_SHIM_NONE) return (ssize_t)bytes;
  if (fault == PROFD_SHIM_SHORT) return (ssize_t)(bytes + 1) / 2;
  errno = fault == PROFD_SHIM_EIO ? EIO : ENOSPC;
  return -1;
}

ssize_t write(int fd, const void* from, size_t bytes) {
  ssize_t now = allowed(fd, bytes);

  return now < 0 ? -1 : REAL(write)(fd, from, (size_t)now);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  ssize_t now = allowed(fd, bytes);

  return now < 0 ? -1 : REAL(pwrite)(fd, from, (size_t)now, at);
}

ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  return pwrite(fd, from, bytes, at);
}

int fsync(int fd) { return strikes(page && names_ours(fd)) ? -1 : REAL(fsync)(fd); }

int fdatasync(int fd) { return strikes(page && names_ours(fd)) ? -1 : REAL(fdatasync)(fd); }

int ftruncate(int fd, off_t length) {
  return strikes(page && names_ours(fd)) ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int rename(const char* from, const char* to) {
  return strikes(page && path_is_ours(AT_FDCWD, to)) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  if (strikes(page && path_is_ours(to_directory, to))) return -1;
  return REAL(renameat)(from_directory, from, to_directory, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned int flags) {
  if (strikes(page && path_is_ours(to_directory, to))) return -1;
  return REAL(renameat2)(from_directory, from, to_directory, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  return strikes(page && path_is_ours(AT_FDCWD, path)) ? -1 : REAL(mkdir)(path, mode);
}

int mkdirat(int directory, const char* path, mode_t mode) {
  if (strikes(page && path_is_ours(directory, path))) return -1;
  return REAL(mkdirat)(directory, path, mode);
}

char* mkdtemp(char* template) {
  return strikes(page && path_is_ours(AT_FDCWD, template)) ? NULL : REAL(mkdtemp)(template);
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  if (strikes(page && path_is_ours(to_directory, to))) return -1;
  return REAL(linkat)(from_directory, from, to_directory, to, flags);
}

// O_TMPFILE has the bit of O_DIRECTORY too.
static int may_create(int flags) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; }

int openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  va_list arguments;

  if (may_create(flags)) {
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (strikes(page && path_is_ours(directory, path))) return -1;
  }
  return REAL(openat)(directory, path, flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) __attribute__((alias("openat")));

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  va_list arguments;

  if (may_create(flags)) {
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (strikes(page && path_is_ours(AT_FDCWD, path))) return -1;
  }
  return REAL(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int clock_gettime(clockid_t clock, struct timespec* time) {
  int failed = REAL(clock_gettime)(clock, time);

  if (!failed && page && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += page->clock_offset;
  return failed;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  int failed = REAL(gettimeofday)(time, zone);

  if (!failed && page) time->tv_sec += page->clock_offset;
  return failed;
}

time_t time(time_t* into) {
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}
