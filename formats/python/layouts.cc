#include "formats/python/layouts.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "formats/base/cursor.h"

namespace profd::python {
namespace {

// PyFrameObject (Include/frameobject.h), PyCodeObject (Include/code.h), struct _ts.
constexpr profd_python_layout layout_of_3_8() {
  profd_python_layout layout{};
  layout.tstate_frame = 24;
  layout.tstate_thread_id = 176;
  layout.frame_code = 32;
  layout.frame_previous = 24;
  layout.frame_position = 104;
  layout.frame_bytes = 108;
  layout.code_bytecode = 48;
  layout.code_parts = 56;  // co_consts, co_names, co_varnames
  layout.code_first_line = 40;
  layout.code_file = 104;
  layout.code_name = 112;
  layout.code_lines = 120;
  layout.object_type = 8;
  layout.str_length = 16;
  layout.str_state = 32;
  layout.str_ascii = 48;
  layout.str_other = 72;
  layout.bytes_size = 16;
  layout.bytes_data = 32;
  layout.position = PROFD_PYTHON_LASTI_BYTES;
  layout.anchor = PROFD_PYTHON_NO_ANCHOR;
  return layout;
}

// CFrame has no current_frame. f_lasti counts units.
constexpr profd_python_layout layout_of_3_10() {
  profd_python_layout layout = layout_of_3_8();
  layout.tstate_cframe = 48;
  layout.cframe_previous = 8;
  layout.frame_position = 96;
  layout.frame_bytes = 100;
  layout.position = PROFD_PYTHON_LASTI_UNITS;
  layout.anchor = PROFD_PYTHON_EACH_CFRAME;
  return layout;
}

// struct _PyInterpreterFrame (Include/internal/pycore_frame.h): is_entry is the boundary.
constexpr profd_python_layout layout_of_3_11() {
  profd_python_layout layout = layout_of_3_8();
  layout.tstate_frame = 0;
  layout.tstate_cframe = 56;
  layout.tstate_thread_id = 152;
  layout.cframe_frame = 8;
  layout.cframe_previous = 16;
  layout.frame_code = 32;
  layout.frame_previous = 48;
  layout.frame_position = 56;
  layout.frame_boundary = 68;
  layout.frame_bytes = 72;
  layout.code_text = 184;
  layout.code_units = 16;
  layout.code_bytecode = 0;
  layout.code_parts = 24;  // co_consts, co_names, co_exceptiontable
  layout.code_first_line = 72;
  layout.code_file = 112;
  layout.code_name = 120;
  layout.code_qualname = 128;
  layout.code_lines = 136;
  layout.boundary_value = 1;
  layout.position = PROFD_PYTHON_POINTER;
  layout.anchor = PROFD_PYTHON_ENTRY_CFRAME;
  layout.frames_are_near = 1;
  layout.has_prologue = 1;
  return layout;
}

// A shim (owner FRAME_OWNED_BY_CSTACK) is the boundary. A str has lost wstr.
constexpr profd_python_layout layout_of_3_12() {
  profd_python_layout layout = layout_of_3_11();
  layout.tstate_thread_id = 136;
  layout.cframe_frame = 0;
  layout.cframe_previous = 8;
  layout.frame_code = 0;
  layout.frame_previous = 8;
  layout.frame_boundary = 70;
  layout.code_text = 192;
  layout.code_first_line = 68;
  layout.code_version = 92;
  layout.code_parts = 0;
  layout.str_ascii = 40;
  layout.str_other = 56;
  layout.boundary_value = 3;
  layout.anchor = PROFD_PYTHON_SHIM;
  return layout;
}

// The thread state has the frame itself.
constexpr profd_python_layout layout_of_3_13() {
  profd_python_layout layout = layout_of_3_12();
  layout.tstate_frame = 72;
  layout.tstate_cframe = 0;
  layout.tstate_thread_id = 152;
  layout.cframe_previous = 0;
  layout.code_text = 200;
  layout.has_prologue = 0;
  return layout;
}

// FRAME_OWNED_BY_INTERPRETER is 3, _BY_CSTACK 4. f_executable is a tagged reference.
constexpr profd_python_layout layout_of_3_14() {
  profd_python_layout layout = layout_of_3_13();
  layout.frame_boundary = 74;
  layout.frame_bytes = 80;
  layout.code_text = 208;
  layout.boundary_or_more = 1;
  layout.pointer_tag_mask = 3;
  return layout;
}

// The last frame lies in the thread state. Its owner is that of a shim, or one more.
constexpr profd_python_layout layout_of_3_15() {
  profd_python_layout layout = layout_of_3_14();
  layout.tstate_thread_id = 176;
  return layout;
}

// autoTSSkey is a Py_tss_t, whose _key is behind an int.
constexpr std::uint16_t key_of(std::uint16_t autotsskey) {
  return static_cast<std::uint16_t>(autotsskey + 4);
}

constexpr std::array<Version, kLastMinor - kFirstMinor + 1> kVersions = {{
    {layout_of_3_8(), 1464, key_of(1392), 176, 0},
    {layout_of_3_8(), 656, key_of(584), 176, 0},
    {layout_of_3_10(), 672, key_of(584), 176, 0},
    {layout_of_3_11(), 0, key_of(592), 184, 0},
    {layout_of_3_12(), 0, key_of(1544), 192, 0},
    {layout_of_3_13(), 0, key_of(2160), 200, 584},
    {layout_of_3_14(), 0, key_of(2336), 208, 760},
    {layout_of_3_15(), 0, 0, 208, 888},
}};

constexpr unsigned kFirstWithDebugOffsets = 13;
constexpr std::size_t kCheckedOffsets = 17;
using CheckedOffsets = std::array<std::uint16_t, kCheckedOffsets>;

// Where struct _Py_DebugOffsets has the numbers of checked_offsets(), in bytes.
constexpr std::array<CheckedOffsets, 3> kPlacesOfOffsets = {{
    {184, 192, 232, 240, 248, 264, 280, 288, 296, 304, 312, 344, 360, 528, 544, 552, 560},
    {208, 216, 256, 264, 272, 288, 320, 328, 336, 344, 352, 384, 408, 608, 624, 632, 640},
    {208, 240, 320, 328, 336, 352, 384, 392, 400, 408, 416, 448, 472, 704, 720, 728, 736},
}};

// thread_state.current_frame and .thread_id; interpreter_frame.previous, .executable, .instr_ptr
// and .owner; code_object.filename, .name, .qualname, .linetable, .firstlineno and
// .co_code_adaptive; pyobject.ob_type; bytes_object.ob_sval; unicode_object.state, .length and
// .asciiobject_size.
constexpr CheckedOffsets checked_offsets(const profd_python_layout& layout) {
  return {layout.tstate_frame,   layout.tstate_thread_id, layout.frame_previous,  layout.frame_code,
          layout.frame_position, layout.frame_boundary,   layout.code_file,       layout.code_name,
          layout.code_qualname,  layout.code_lines,       layout.code_first_line, layout.code_text,
          layout.object_type,    layout.bytes_data,       layout.str_state,       layout.str_length,
          layout.str_ascii};
}

}  // namespace

const Version* find_version(unsigned minor) {
  if (minor < kFirstMinor || minor > kLastMinor) return nullptr;
  return &kVersions[minor - kFirstMinor];
}

profd_layout to_layout(const profd_python_layout& layout) {
  static_assert(sizeof layout <= sizeof(profd_layout));
  profd_layout made{};
  std::memcpy(&made, &layout, sizeof layout);
  return made;
}

bool agrees_with_debug_offsets(const Version& version, unsigned minor, std::string_view bytes) {
  if (version.debug_offsets == 0) return true;
  if (minor < kFirstWithDebugOffsets || minor > kLastMinor) return false;
  if (bytes.size() < version.debug_offsets) return false;
  const CheckedOffsets& places = kPlacesOfOffsets[minor - kFirstWithDebugOffsets];
  const CheckedOffsets expected = checked_offsets(version.layout);
  for (std::size_t i = 0; i < kCheckedOffsets; ++i) {
    Cursor cursor(bytes.substr(places[i]));
    if (cursor.read<std::uint64_t>() != expected[i]) return false;
  }
  return true;
}

}  // namespace profd::python
