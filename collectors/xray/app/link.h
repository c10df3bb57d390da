/* The library's thread: waits for profd's socket, and does what profd asks for (wire.h). */

#pragma once

#include <stdbool.h>

/* Starts the thread. False where the system has none left. */
bool profd_xray_link_start(void);
