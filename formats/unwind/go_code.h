// Code of Go's runtime at which the stack of a goroutine or a thread ends, by its bytes. Stripped
// programs have it too, and Go's own CFI marks none of it.
//
// Sources: src/runtime/asm_amd64.s and src/runtime/sys_linux_amd64.s of Go 1.17 to 1.26. A new
// thread has the frame pointer of the thread that started it, and these functions have no frames:
// without them, the callers of that other thread follow.

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace profd::go {

// Functions begin at a multiple of it.
inline constexpr std::size_t kCodeAlignment = 16;

// goexit: nop; call goexit1; nop; padding. The return address of the first function of every
// goroutine is its second byte, so it is looked up at the first.
inline constexpr std::size_t kGoexitBytes = 8;
[[nodiscard]] bool is_goexit(std::string_view code);

// mstart, which every thread runs: call mstart0; ret; padding. (That of Go 1.26 clears the frame
// pointer itself, and is not recognized.) Functions of programs can have the same shape, so it must
// also be the one that rt0_go calls last, before its call of abort.
inline constexpr std::size_t kMstartBytes = 6;
[[nodiscard]] bool has_shape_of_mstart(std::string_view code);
// `code` is rt0_go with what follows; mstart begins at `mstart` in it.
[[nodiscard]] bool is_mstart(std::string_view code, std::size_t mstart);

// clone: the system call, after which the parent returns and the child calls mstart on the new
// stack. Offsets in the code that was searched.
struct CloneCode {
  std::size_t system_call = 0;
  std::size_t child = 0;  // up to here, the function's return address is at rsp
  std::size_t end = 0;
};
[[nodiscard]] std::optional<CloneCode> find_clone(std::string_view code);

}  // namespace profd::go
