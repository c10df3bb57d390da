/* libprofd_xray: lets profd record every function call of a running app.
 *
 * The library is for programs built with clang's -fxray-instrument. Link it, and call one function
 * once:
 *
 *     #include <profd_xray.h>
 *     ...
 *     profd_xray_start();
 *
 *     clang++ -fxray-instrument app.cc -lprofd_xray
 *
 * Or link the whole static library, without a call:
 *
 *     clang++ -fxray-instrument app.cc -l:libprofd_xray.a -Wl,-u,profd_xray_enlist
 *
 * The app then has one more thread, which sleeps until profd's socket appears. Functions stay
 * unpatched, which costs 1 to 2 ns a call, until a session records them:
 *
 *     profctl start --pid PID --event xray --functions '^parse'
 *
 * While the session runs, the app's threads write their calls into memory that profd reads. They
 * never wait: a call that can't be written is dropped and counted in the session's report. When the
 * session or profd ends, the functions are unpatched. The child of a fork is an app of its own.
 *
 * The library uses XRay's log mode "profd". If the app uses XRay itself in another mode, the
 * library does not interfere, and sessions are refused with that reason. The library is never
 * unloaded: dlclose() has no effect.
 *
 * PROFD_XRAY_SOCKET in the environment names another socket than /run/profd/app.sock. It is ignored
 * in set-user-ID programs. */

#ifndef PROFD_XRAY_H
#define PROFD_XRAY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of XRay's runtime that the library calls. The runtime is hidden in the program, so
 * only code that is linked into the program can pass their addresses to a shared library. */
#define PROFD_XRAY_RUNTIME(symbol)                                                                \
  symbol(set_handler) symbol(remove_handler) symbol(set_handler_arg1) symbol(remove_handler_arg1) \
      symbol(patch) symbol(unpatch) symbol(patch_function) symbol(function_address)               \
          symbol(max_function_id) symbol(log_register_mode) symbol(log_select_mode)               \
              symbol(log_get_current_mode) symbol(log_init_mode) symbol(log_finalize)             \
                  symbol(log_flushLog)

typedef void (*profd_xray_function)(void);

/* Starts the library with these functions, in the order above. May be called on any thread and any
 * number of times. Returns 0, or -1 if a function is missing or the system can't start a thread;
 * the app then runs as without the library. */
int profd_xray_enlist(const profd_xray_function* runtime, size_t count);

#define PROFD_XRAY_DECLARE(name) \
  extern void profd_xray_of_##name(void) __asm__("__xray_" #name) __attribute__((weak));
PROFD_XRAY_RUNTIME(PROFD_XRAY_DECLARE)

#define PROFD_XRAY_ADDRESS(name) profd_xray_of_##name,
static inline int profd_xray_start(void) {
  const profd_xray_function runtime[] = {PROFD_XRAY_RUNTIME(PROFD_XRAY_ADDRESS)};
  return profd_xray_enlist(runtime, sizeof runtime / sizeof runtime[0]);
}

#undef PROFD_XRAY_DECLARE
#undef PROFD_XRAY_ADDRESS

#ifdef __cplusplus
}
#endif

#endif
