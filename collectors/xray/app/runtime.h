/* The interface of XRay's runtime (compiler-rt: include/xray/xray_interface.h,
 * xray_log_interface.h) in C. */

#pragma once

#include <stddef.h>
#include <stdint.h>

enum xray_entry { XRAY_ENTRY = 0, XRAY_EXIT = 1, XRAY_TAIL = 2, XRAY_ARGUMENT_ENTRY = 3 };
enum xray_patching {
  XRAY_PATCH_NOT_INITIALIZED = 0,
  XRAY_PATCH_DONE = 1,
  XRAY_PATCH_ONGOING = 2,
  XRAY_PATCH_FAILED = 3,
};
enum xray_log { XRAY_LOG_OFF = 0, XRAY_LOG_READY = 2, XRAY_LOG_FINAL = 4 };
enum xray_flush { XRAY_FLUSHED = 2 };

typedef void (*xray_handler)(int32_t function, enum xray_entry entry);
typedef void (*xray_argument_handler)(int32_t function, enum xray_entry entry, uint64_t argument);

/* XRayLogImpl */
struct xray_log_mode {
  enum xray_log (*init)(size_t, size_t, void*, size_t);
  enum xray_log (*finalize)(void);
  xray_handler handler;
  enum xray_flush (*flush)(void);
};

/* In the order of PROFD_XRAY_RUNTIME (profd_xray.h). */
struct xray_runtime {
  int (*set_handler)(xray_handler handler);
  int (*remove_handler)(void);
  int (*set_handler_arg1)(xray_argument_handler handler);
  int (*remove_handler_arg1)(void);
  enum xray_patching (*patch)(void);
  enum xray_patching (*unpatch)(void);
  enum xray_patching (*patch_function)(int32_t function);
  uintptr_t (*function_address)(int32_t function);
  size_t (*max_function_id)(void);
  int (*log_register_mode)(const char* name, struct xray_log_mode mode);
  int (*log_select_mode)(const char* name);
  const char* (*log_get_current_mode)(void);
  enum xray_log (*log_init_mode)(const char* name, const char* config);
  enum xray_log (*log_finalize)(void);
  enum xray_flush (*log_flush)(void);
};
