// The call frame information of an ELF file: .eh_frame and .debug_frame.

#pragma once

#include <cstddef>

#include "formats/base/result.h"
#include "formats/elf/code_file.h"
#include "formats/unwind/cfi_entries.h"

namespace profd {

// Both return at most `max_bytes`, decompressed. kNotFound: the file has no such section.

// Without section headers, .eh_frame is found through PT_GNU_EH_FRAME.
[[nodiscard]] Result<CfiSection> read_eh_frame(const CodeFile& file, std::size_t max_bytes);
[[nodiscard]] Result<CfiSection> read_debug_frame(const CodeFile& file, std::size_t max_bytes);

}  // namespace profd
