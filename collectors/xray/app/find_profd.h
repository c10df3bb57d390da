/* Finds profd's socket, now or as soon as it appears. */

#pragma once

/* Connects to the socket at `path`. Sleeps in inotify, on the socket's directory or the nearest
 * existing one above it, until the socket accepts a connection. -1: the system can't watch
 * directories. */
int profd_xray_find_profd(const char* path);
