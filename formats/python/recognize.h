// Whether an ELF file is CPython (an executable, libpython, or a program that has it inside), and
// what the BPF programs must know of it. By content alone: the exported symbols that every
// extension module links to, the version in the file's bytes, and the code of two short functions.
//
// Nothing is executed or relocated. The file may be hostile: a wrong answer can only make the
// programs read memory of the process that maps it, by reads that can fail.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/base/result.h"
#include "formats/elf/code_file.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// Costs 3 reads of some hundred bytes for a file that is not CPython. For one that is, most of the
// time is that for the list of its FDEs (other_part.h), a part of what its unwind rows take. kNone:
// another file. Errors only for a file that can't be read.
[[nodiscard]] Result<FoundRuntime> recognize_python(const CodeFile& file);

namespace python {

// The shapes of machine code that lead to a thread's state. `code` is that of the function, at most
// kMaxFunctionBytes, `address` its vaddr.
inline constexpr std::size_t kMaxFunctionBytes = 256;

struct Slot {
  std::uint8_t form = PROFD_SLOT_NONE;  // profd_slot_form
  std::int64_t where = 0;               // as in profd_runtime
  std::int16_t add = 0;
};

// PyGILState_GetThisThreadState: of the key, or in 3.15 of the thread-local variable. `got` gives
// the address that a GOT entry (a vaddr) will hold, as vaddr: by its RELATIVE or GLOB_DAT
// relocation, none: unknown. `key` is the vaddr of the runtime's key by the layout, 0: not known:
// a form that ends elsewhere is refused.
using GotTarget = std::optional<std::uint64_t> (*)(const void* context, std::uint64_t got_entry);
[[nodiscard]] std::optional<Slot> find_gilstate_slot(std::span<const std::uint8_t> code,
                                                     std::uint64_t address, std::uint64_t key,
                                                     GotTarget got, const void* context);

// _PyThreadState_GetCurrent of 3.12 and later: the variable _Py_tss_tstate.
[[nodiscard]] std::optional<Slot> find_current_slot(std::span<const std::uint8_t> code,
                                                    std::uint64_t address);

}  // namespace python
}  // namespace profd
