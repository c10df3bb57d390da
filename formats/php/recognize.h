// Whether an ELF file is PHP (php, php-fpm, libphp for Apache, or a program that has it inside),
// and what the BPF programs must know of it. By content alone: the symbols that every extension
// links to, and the version in the header that PHP sends.
//
// Nothing is executed or relocated. The file may be hostile: a wrong answer can only make the
// programs read memory of the process that maps it, by reads that can fail.

#pragma once

#include "formats/base/result.h"
#include "formats/elf/code_file.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// Costs 3 reads of some hundred bytes for a file that is not PHP. For one that is, reads the
// segments that can't be written, 32 MiB at most. kNone: another file. kFreeThreaded: built with
// thread safety (ZTS). Errors only for a file that can't be read.
[[nodiscard]] Result<FoundRuntime> recognize_php(const CodeFile& file);

}  // namespace profd
