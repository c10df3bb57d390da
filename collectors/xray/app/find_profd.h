/* Finds profd: its socket, now or as soon as it appears. */

#pragma once

/* A connection to the socket at `path`. Sleeps in inotify, on the socket's directory or the nearest
 * that is there, until somebody listens. -1 where the system can't watch directories. */
int profd_xray_find_profd(const char* path);
