// The vDSO, "linux-vdso.so.1": the kernel maps it into every process and no file has it. All
// processes have the same bytes, so profd copies its own.

#pragma once

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// A memfd with the whole ELF file. kUnsupported where the kernel has not given this process a vDSO.
[[nodiscard]] Result<UniqueFd> copy_own_vdso();

}  // namespace profd
