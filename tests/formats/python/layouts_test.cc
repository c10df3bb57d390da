// The layouts, a second time by hand from the measured table: two hands rarely slip at one place.

#include "formats/python/layouts.h"

#include <cstdint>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

namespace profd::python {
namespace {

struct LayoutRow {
  unsigned minor;
  std::uint16_t key, leaf_frame, cframe, cframe_frame, cframe_previous, thread_id;
  std::uint16_t code, previous, position, boundary;
  std::uint16_t basicsize, first_line, file, name, qualname, lines, units, version;
  std::uint16_t ascii, other;
};

constexpr LayoutRow kLayoutRows[] = {
    {8, 1396, 24, 0, 0, 0, 176, 32, 24, 104, 0, 176, 40, 104, 112, 0, 120, 0, 0, 48, 72},
    {9, 588, 24, 0, 0, 0, 176, 32, 24, 104, 0, 176, 40, 104, 112, 0, 120, 0, 0, 48, 72},
    {10, 588, 24, 48, 0, 8, 176, 32, 24, 96, 0, 176, 40, 104, 112, 0, 120, 0, 0, 48, 72},
    {11, 596, 0, 56, 8, 16, 152, 32, 48, 56, 68, 184, 72, 112, 120, 128, 136, 16, 0, 48, 72},
    {12, 1548, 0, 56, 0, 8, 136, 0, 8, 56, 70, 192, 68, 112, 120, 128, 136, 16, 92, 40, 56},
    {13, 2164, 72, 0, 0, 0, 152, 0, 8, 56, 70, 200, 68, 112, 120, 128, 136, 16, 92, 40, 56},
    {14, 2340, 72, 0, 0, 0, 152, 0, 8, 56, 74, 208, 68, 112, 120, 128, 136, 16, 92, 40, 56},
    {15, 0, 72, 0, 0, 0, 176, 0, 8, 56, 74, 208, 68, 112, 120, 128, 136, 16, 92, 40, 56},
};

class PythonLayoutsTest : public testing::TestWithParam<LayoutRow> {
 protected:
  const LayoutRow& row_ = GetParam();
  const Version* version_ = find_version(row_.minor);
};

TEST_P(PythonLayoutsTest, ThreadStateAndFrame) {
  ASSERT_NE(version_, nullptr);
  const profd_python_layout& layout = version_->layout;
  EXPECT_EQ(version_->key, row_.key);
  EXPECT_EQ(layout.tstate_frame, row_.leaf_frame);
  EXPECT_EQ(layout.tstate_cframe, row_.cframe);
  EXPECT_EQ(layout.cframe_frame, row_.cframe_frame);
  EXPECT_EQ(layout.cframe_previous, row_.cframe_previous);
  EXPECT_EQ(layout.tstate_thread_id, row_.thread_id);
  EXPECT_EQ(layout.frame_code, row_.code);
  EXPECT_EQ(layout.frame_previous, row_.previous);
  EXPECT_EQ(layout.frame_position, row_.position);
  EXPECT_EQ(layout.frame_boundary, row_.boundary);
}

TEST_P(PythonLayoutsTest, CodeAndTexts) {
  ASSERT_NE(version_, nullptr);
  const profd_python_layout& layout = version_->layout;
  EXPECT_EQ(version_->code_basicsize, row_.basicsize);
  EXPECT_EQ(layout.code_first_line, row_.first_line);
  EXPECT_EQ(layout.code_file, row_.file);
  EXPECT_EQ(layout.code_name, row_.name);
  EXPECT_EQ(layout.code_qualname, row_.qualname);
  EXPECT_EQ(layout.code_lines, row_.lines);
  EXPECT_EQ(layout.code_units, row_.units);
  EXPECT_EQ(layout.code_version, row_.version);
  const int parts = row_.minor == 11 ? 24 : 56;
  EXPECT_EQ(layout.code_parts, row_.version != 0 ? 0 : parts);
  EXPECT_EQ(layout.object_type, 8);
  EXPECT_EQ(layout.str_length, 16);
  EXPECT_EQ(layout.str_state, 32);
  EXPECT_EQ(layout.str_ascii, row_.ascii);
  EXPECT_EQ(layout.str_other, row_.other);
  EXPECT_EQ(layout.bytes_size, 16);
  EXPECT_EQ(layout.bytes_data, 32);
  // Where the bytecode lies in the object, it begins behind it.
  if (row_.minor >= 11) {
    EXPECT_EQ(layout.code_text, row_.basicsize);
  }
}

// What the walk reads at once: each field has to lie within.
TEST_P(PythonLayoutsTest, FieldsLieInWhatIsRead) {
  ASSERT_NE(version_, nullptr);
  const profd_python_layout& layout = version_->layout;
  EXPECT_LE(layout.frame_bytes, PROFD_PYTHON_MAX_FRAME_BYTES);
  for (const std::uint16_t offset : {layout.frame_code, layout.frame_previous}) {
    EXPECT_LE(offset + 8, layout.frame_bytes);
  }
  const int position_bytes = layout.position == PROFD_PYTHON_POINTER ? 8 : 4;
  EXPECT_LE(layout.frame_position + position_bytes, layout.frame_bytes);
  EXPECT_LT(layout.frame_boundary, layout.frame_bytes);
  for (const std::uint16_t offset : {layout.code_file, layout.code_name, layout.code_qualname,
                                     layout.code_lines, layout.code_units, layout.code_bytecode}) {
    EXPECT_LE(offset + 8, PROFD_PYTHON_CODE_BYTES);
  }
}

TEST_P(PythonLayoutsTest, HowFramesEndSegments) {
  ASSERT_NE(version_, nullptr);
  const profd_python_layout& layout = version_->layout;
  const unsigned minor = row_.minor;
  const auto anchor = minor < 10    ? PROFD_PYTHON_NO_ANCHOR
                      : minor == 10 ? PROFD_PYTHON_EACH_CFRAME
                      : minor == 11 ? PROFD_PYTHON_ENTRY_CFRAME
                                    : PROFD_PYTHON_SHIM;
  const auto position = minor < 10    ? PROFD_PYTHON_LASTI_BYTES
                        : minor == 10 ? PROFD_PYTHON_LASTI_UNITS
                                      : PROFD_PYTHON_POINTER;
  EXPECT_EQ(layout.anchor, anchor);
  EXPECT_EQ(layout.position, position);
  EXPECT_EQ(layout.has_prologue, minor == 11 || minor == 12 ? 1 : 0);
  EXPECT_EQ(layout.frames_are_near, minor >= 11 ? 1 : 0);
  EXPECT_EQ(layout.pointer_tag_mask, minor >= 14 ? 3 : 0);
  EXPECT_EQ(layout.boundary_or_more, minor >= 14 ? 1 : 0);
  if (minor >= 11) {
    EXPECT_EQ(layout.boundary_value, minor == 11 ? 1 : 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonLayoutsTest, testing::ValuesIn(kLayoutRows),
                         [](const auto& row) { return "Of3_" + std::to_string(row.param.minor); });

TEST(PythonVersionsTest, AreKnownFrom8To15) {
  EXPECT_EQ(find_version(7), nullptr);
  EXPECT_EQ(find_version(16), nullptr);
  EXPECT_EQ(find_version(8)->runtime_bytes, 1464);
  EXPECT_EQ(find_version(9)->runtime_bytes, 656);
  EXPECT_EQ(find_version(10)->runtime_bytes, 672);
  EXPECT_EQ(find_version(12)->debug_offsets, 0);
  EXPECT_EQ(find_version(13)->debug_offsets, 584);
  EXPECT_EQ(find_version(14)->debug_offsets, 760);
  EXPECT_EQ(find_version(15)->debug_offsets, 888);
}

// The bytes that the file itself has: a number of each is compared, at the place of its version.
struct DebugOffset {
  std::size_t at[3];  // in 3.13, 3.14 and 3.15
  std::uint16_t profd_python_layout::*field;
};

constexpr DebugOffset kDebugOffsets[] = {
    {{184, 208, 208}, &profd_python_layout::tstate_frame},
    {{192, 216, 240}, &profd_python_layout::tstate_thread_id},
    {{232, 256, 320}, &profd_python_layout::frame_previous},
    {{240, 264, 328}, &profd_python_layout::frame_code},
    {{248, 272, 336}, &profd_python_layout::frame_position},
    {{264, 288, 352}, &profd_python_layout::frame_boundary},
    {{280, 320, 384}, &profd_python_layout::code_file},
    {{288, 328, 392}, &profd_python_layout::code_name},
    {{296, 336, 400}, &profd_python_layout::code_qualname},
    {{304, 344, 408}, &profd_python_layout::code_lines},
    {{312, 352, 416}, &profd_python_layout::code_first_line},
    {{344, 384, 448}, &profd_python_layout::code_text},
    {{360, 408, 472}, &profd_python_layout::object_type},
    {{528, 608, 704}, &profd_python_layout::bytes_data},
    {{544, 624, 720}, &profd_python_layout::str_state},
    {{552, 632, 728}, &profd_python_layout::str_length},
    {{560, 640, 736}, &profd_python_layout::str_ascii},
};

void set_number(std::string& bytes, std::size_t at, std::uint64_t number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

std::string debug_offsets_of(const Version& version, unsigned minor) {
  std::string bytes(version.debug_offsets, '\0');
  for (const DebugOffset& one : kDebugOffsets) {
    set_number(bytes, one.at[minor - 13], version.layout.*one.field);
  }
  return bytes;
}

TEST(PythonVersionsTest, AgreeWithTheirDebugOffsetsAndWithNoOthers) {
  for (unsigned minor = 13; minor <= 15; ++minor) {
    SCOPED_TRACE(minor);
    const Version& version = *find_version(minor);
    const std::string bytes = debug_offsets_of(version, minor);
    EXPECT_TRUE(agrees_with_debug_offsets(version, minor, bytes));
    for (const DebugOffset& one : kDebugOffsets) {
      std::string other = bytes;
      set_number(other, one.at[minor - 13], 9999);
      EXPECT_FALSE(agrees_with_debug_offsets(version, minor, other)) << one.at[minor - 13];
    }
    EXPECT_FALSE(agrees_with_debug_offsets(version, minor, bytes.substr(0, bytes.size() / 2)));
  }
}

}  // namespace
}  // namespace profd::python
