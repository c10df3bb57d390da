/* The library's thread: waits for profd's socket, and executes profd's commands (wire.h). */

#pragma once

#include <stdbool.h>

/* Starts the thread. False: the system can't start another one. */
bool profd_xray_link_start(void);
