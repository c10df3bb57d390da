// The memory of each minor version of CPython. Offsets by offsetof() from the headers of 3.8.18,
// 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0, 3.14.6 and 3.15.2; they are equal in every patch release
// looked at.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bpf/python_abi.h"

namespace profd::python {

inline constexpr unsigned kFirstMinor = 8;
inline constexpr unsigned kLastMinor = 15;

// What the recogniser needs besides the layout.
struct Version {
  profd_python_layout layout;
  std::uint16_t runtime_bytes;   // st_size of _PyRuntime, 3.8 to 3.10; 0: not used
  std::uint16_t key;             // of autoTSSkey._key in _PyRuntime; 0: a thread-local variable
  std::uint16_t code_basicsize;  // PyCode_Type.tp_basicsize
  std::uint16_t debug_offsets;   // the size of _Py_DebugOffsets; 0: the version has none
};

// Null for another version than 3.8 to 3.15.
[[nodiscard]] const Version* find_version(unsigned minor);

// The number of the version's layout in the BPF programs: 1 for 3.8, and so on.
[[nodiscard]] constexpr std::uint8_t layout_number(unsigned minor) {
  return static_cast<std::uint8_t>(minor - kFirstMinor + 1);
}
static_assert(layout_number(kLastMinor) < 16, "PHP's layouts begin at 16");

// As the maps of the programs have it.
[[nodiscard]] profd_layout to_layout(const profd_python_layout& layout);

// Whether the offsets that the file itself has (3.13 and later, _Py_DebugOffsets at the start of
// _PyRuntime, at least Version::debug_offsets bytes) are those of the layout. `bytes` are the
// file's.
[[nodiscard]] bool agrees_with_debug_offsets(const Version& version, unsigned minor,
                                             std::string_view bytes);

}  // namespace profd::python
