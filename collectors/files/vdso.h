// The code that the kernel maps into every process, "linux-vdso.so.1": no file has it, but profd's
// own copy is the same bytes.

#pragma once

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// A memfd with the whole ELF file. kUnsupported where the kernel gave this process none.
[[nodiscard]] Result<UniqueFd> copy_own_vdso();

}  // namespace profd
