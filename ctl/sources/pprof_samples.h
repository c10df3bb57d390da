// The samples of a profile.proto: of profd, and of other programs that count CPU time, or time off
// the CPU as profd does (formats/profile/block_names.h).

#pragma once

#include <string>

#include "ctl/views/samples.h"
#include "formats/base/result.h"

namespace profd {

// `protobuf` is unpacked; the samples keep it. kMalformed, with a hint: it is malformed, its values
// are not of CPU time or events, or it is the difference of two profiles.
[[nodiscard]] Result<Samples> samples_of_pprof(std::string protobuf);

// The kind of code of a file or mapping, as profd, perf and others call them: "[kernel.kallsyms]"
// is the kernel, "[jit]" a runtime, "[python]" an interpreter.
[[nodiscard]] FrameKind kind_of_object(std::string_view object);

}  // namespace profd
