// Linked to every program of a build with the thread sanitizer (`make check-tsan`); those in C are
// not instrumented, and some of them have no C library.

extern "C" const char* __tsan_default_options();  // NOLINT: the sanitizer's name

// Tests fork while other threads run.
const char* __tsan_default_options() { return "die_after_fork=0"; }

#ifdef __SANITIZE_THREAD__

#include <dlfcn.h>
#include <unistd.h>

#include <pthread.h>
#include <semaphore.h>

// In the child of a process with one thread, the sanitizer starts a thread of its own. The child
// can then enter no user namespace, and a seccomp filter kills it for what that thread calls. In
// the child of a process with several threads the sanitizer starts none, so fork() has a second
// thread meanwhile. In such a child the sanitizer does not look for races, still counts the second
// thread, and dies when a new one has its id: so a fork in the child makes none.
extern "C" pid_t fork() noexcept {
  static const auto next = reinterpret_cast<pid_t (*)()>(::dlsym(RTLD_NEXT, "fork"));
  static bool is_child = false;
  sem_t forked;
  ::sem_init(&forked, 0, 0);
  const auto wait = [](void* semaphore) -> void* {
    while (::sem_wait(static_cast<sem_t*>(semaphore)) != 0) continue;
    return nullptr;
  };
  pthread_t other{};
  const bool has_other = !is_child && ::pthread_create(&other, nullptr, wait, &forked) == 0;
  const pid_t child = next();
  is_child = is_child || child == 0;
  if (child != 0 && has_other) {
    ::sem_post(&forked);
    ::pthread_join(other, nullptr);
  }
  return child;
}

#endif
