// Reads what the BPF iterators of profd write.

#pragma once

#include <cstdint>
#include <string>

#include "formats/base/result.h"

namespace profd {

// The whole output of an iterator over tasks or programs; of one task where `only_tid` is not 0.
// `program` is its descriptor, `name` is for errors. To read all tasks takes as long as the host
// has threads (kernel_calls.h). Any thread.
[[nodiscard]] Result<std::string> read_iterator(int program, const char* name,
                                                std::uint32_t only_tid);

}  // namespace profd
