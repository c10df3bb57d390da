#include "collectors/xray/app/profd_xray.h"

#include <pthread.h>
#include <stdbool.h>

#include "collectors/xray/app/link.h"
#include "collectors/xray/app/patching.h"
#include "collectors/xray/app/recorder.h"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool is_started;

__attribute__((visibility("default"))) int profd_xray_enlist(const profd_xray_function* runtime,
                                                             size_t count) {
  pthread_mutex_lock(&starting);
  if (!is_started && profd_xray_adopt_runtime(runtime, count)) {
    is_started = profd_xray_recorder_open() && profd_xray_link_start();
  }
  pthread_mutex_unlock(&starting);
  return is_started ? 0 : -1;
}

/* Starts the static library, which is in the same program as the runtime. The shared library can't
 * see the runtime as a rule; then this does nothing. */
__attribute__((constructor)) static void start_when_loaded(void) { (void)profd_xray_start(); }
