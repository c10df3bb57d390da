#include "collectors/xray/app/patching.h"

#include <time.h>

#include <string.h>

#include "collectors/xray/app/recorder.h"
#include "collectors/xray/app/runtime.h"
#include "collectors/xray/app/wire.h"

static const char kMode[] = "profd";
static struct xray_runtime runtime;

/* Another thread of the app may be patching, which takes some milliseconds in a large program. */
enum { kTries = 200, kNanosecondsBetweenTries = 1000000 };

static enum xray_log start_mode(size_t bytes, size_t buffers, void* arguments,
                                size_t argument_bytes) {
  (void)bytes, (void)buffers, (void)arguments, (void)argument_bytes;
  runtime.set_handler(profd_xray_on_call);
  runtime.set_handler_arg1(profd_xray_on_call_with_argument);
  return XRAY_LOG_READY;
}

static enum xray_log finish_mode(void) {
  runtime.remove_handler();
  runtime.remove_handler_arg1();
  return XRAY_LOG_FINAL;
}

/* The handlers buffer nothing that would have to be flushed. */
static enum xray_flush flush_mode(void) { return XRAY_FLUSHED; }

_Static_assert(sizeof(profd_xray_function) == sizeof(void*),
               "function pointers are copied with memcpy");

bool profd_xray_adopt_runtime(const profd_xray_function* functions, size_t count) {
  if (count != sizeof runtime / sizeof *functions) return false;
  for (size_t i = 0; i < count; ++i) {
    if (functions[i] == NULL) return false;
  }
  memcpy(&runtime, functions, sizeof runtime);
  const struct xray_log_mode mode = {.init = start_mode,
                                     .finalize = finish_mode,
                                     .handler = profd_xray_on_call,
                                     .flush = flush_mode};
  return runtime.log_register_mode(kMode, mode) == 0;
}

uint32_t profd_xray_enter_mode(void) {
  if (runtime.max_function_id() == 0) return PROFD_XRAY_NOT_INSTRUMENTED;
  const char* const mode = runtime.log_get_current_mode();
  if (mode != NULL && strcmp(mode, kMode) != 0) return PROFD_XRAY_OTHER_MODE;
  if (runtime.log_select_mode(kMode) != 0) return PROFD_XRAY_OTHER_MODE;
  return runtime.log_init_mode(kMode, "") == XRAY_LOG_READY ? 0 : PROFD_XRAY_OTHER_MODE;
}

void profd_xray_leave_mode(void) {
  runtime.log_finalize();
  runtime.log_flush();
}

/* Calls `all`, or patches one function if `all` is null. */
static bool change(enum xray_patching (*all)(void), int32_t function) {
  const struct timespec pause = {.tv_nsec = kNanosecondsBetweenTries};
  enum xray_patching status = XRAY_PATCH_ONGOING;
  for (int i = 0; i < kTries && status == XRAY_PATCH_ONGOING; ++i) {
    if (i != 0) nanosleep(&pause, NULL);
    status = all != NULL ? all() : runtime.patch_function(function);
  }
  return status == XRAY_PATCH_DONE;
}

uint32_t profd_xray_patch(const int32_t* functions, uint32_t count) {
  if (count == 0) return change(runtime.patch, 0) ? profd_xray_last_function() : 0;
  uint32_t patched = 0;
  for (uint32_t i = 0; i < count; ++i) patched += change(NULL, functions[i]) ? 1 : 0;
  return patched;
}

void profd_xray_unpatch(void) { change(runtime.unpatch, 0); }

uint32_t profd_xray_last_function(void) { return (uint32_t)runtime.max_function_id(); }

uint64_t profd_xray_address_of_first(void) { return runtime.function_address(1); }
