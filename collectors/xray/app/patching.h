/* XRay's runtime, as far as it is driven: its log mode "profd", and which functions call the
 * handlers. On the library's thread. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/xray/app/profd_xray.h"

/* Takes over where the runtime's functions are (PROFD_XRAY_RUNTIME in profd_xray.h) and tells it of
 * the mode: once. False where one of them is missing. */
bool profd_xray_adopt_runtime(const profd_xray_function* functions, size_t count);

/* Selects the mode and sets the handlers. 0, or a profd_xray_refusal. */
uint32_t profd_xray_enter_mode(void);
void profd_xray_leave_mode(void);

/* `count` functions, or all for 0. How many call the handlers now. */
uint32_t profd_xray_patch(const int32_t* functions, uint32_t count);
void profd_xray_unpatch(void);

/* Functions are numbered from 1. */
uint32_t profd_xray_last_function(void);
uint64_t profd_xray_address_of_first(void);
