#include "collectors/host/kernel_release.h"

#include <sys/utsname.h>

namespace profd {

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

}  // namespace profd
