/* Drives XRay's runtime: registers its log mode "profd", and patches the functions that call the
 * handlers. On the library's thread. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/xray/app/profd_xray.h"

/* Stores the addresses of the runtime's functions (PROFD_XRAY_RUNTIME in profd_xray.h) and
 * registers the mode. To be called once. False: one of the functions is missing. */
bool profd_xray_adopt_runtime(const profd_xray_function* functions, size_t count);

/* Selects the mode and sets the handlers. 0, or a profd_xray_refusal. */
uint32_t profd_xray_enter_mode(void);
void profd_xray_leave_mode(void);

/* Patches `count` functions; 0: all. Returns the number of functions that are patched now. */
uint32_t profd_xray_patch(const int32_t* functions, uint32_t count);
void profd_xray_unpatch(void);

/* Functions are numbered from 1. */
uint32_t profd_xray_last_function(void);
uint64_t profd_xray_address_of_first(void);
