/* libprofd_xray: lets profd record the function calls of a running app exactly.
 *
 * For programs built with clang's -fxray-instrument. Link the library, and call one function, once,
 * anywhere:
 *
 *     #include <profd_xray.h>
 *     ...
 *     profd_xray_start();
 *
 *     clang++ -fxray-instrument app.cc -lprofd_xray
 *
 * Or link the static library whole, and call nothing:
 *
 *     clang++ -fxray-instrument app.cc -l:libprofd_xray.a -Wl,-u,profd_xray_enlist
 *
 * From then on the app has one more thread, which sleeps until profd's socket appears, and nothing
 * else changes: functions stay unpatched, 1 to 2 ns a call, until somebody asks for them:
 *
 *     profctl start --pid PID --event xray --functions '^parse'
 *
 * While that session runs, threads write their calls into memory that profd reads. They are never
 * blocked: what can't be written is dropped, and the count of it is in the session's report. When
 * the session ends, or profd does, the functions are as they were. A fork's child is an app of its
 * own.
 *
 * The library uses XRay's log mode "profd". Where the app itself uses XRay, in another mode, it
 * leaves it alone, and sessions are refused with that reason. It is never unloaded (dlclose has no
 * effect).
 *
 * PROFD_XRAY_SOCKET in the environment names another socket than /run/profd/app.sock, not in
 * set-user-ID programs. */

#ifndef PROFD_XRAY_H
#define PROFD_XRAY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library calls of XRay's runtime, which is part of the program and hidden in it: only
 * code that is linked into the program can tell a shared library where it is. */
#define PROFD_XRAY_RUNTIME(symbol)                                                                \
  symbol(set_handler) symbol(remove_handler) symbol(set_handler_arg1) symbol(remove_handler_arg1) \
      symbol(patch) symbol(unpatch) symbol(patch_function) symbol(function_address)               \
          symbol(max_function_id) symbol(log_register_mode) symbol(log_select_mode)               \
              symbol(log_get_current_mode) symbol(log_init_mode) symbol(log_finalize)             \
                  symbol(log_flushLog)

typedef void (*profd_xray_function)(void);

/* Starts the library with these functions, in the order above. Any thread, any number of times.
 * Returns 0, or -1 where one of them is missing or the system has no thread left; the app then runs
 * on as without the library. */
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
