// Names of code objects, from the bytes that a process has.

#include "formats/python/code_object.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "formats/interpreters/text.h"
#include "formats/python/layouts.h"

namespace profd {
namespace {

using std::string_view_literals::operator""sv;

struct TextCase {
  const char* name;
  std::string_view bytes;
  profd_text_kind kind;
  std::string_view text;
};

constexpr TextCase kTexts[] = {
    {"ASCII", "work"sv, PROFD_TEXT_LATIN_1, "work"},
    {"Latin-1", "caf\xe9"sv, PROFD_TEXT_LATIN_1, "caf\xc3\xa9"},
    {"UCS-2", "\x34\x12\x41\x00"sv, PROFD_TEXT_UCS_2, "\xe1\x88\xb4\x41"},
    {"a surrogate", "\x00\xd8\x41\x00"sv, PROFD_TEXT_UCS_2, "\xef\xbf\xbd\x41"},
    {"UCS-4", "\x00\xf6\x01\x00"sv, PROFD_TEXT_UCS_4, "\xf0\x9f\x98\x80"},
    {"above the last code point", "\x00\x00\x11\x00"sv, PROFD_TEXT_UCS_4, "\xef\xbf\xbd"},
    {"all bits", "\xff\xff\xff\xff"sv, PROFD_TEXT_UCS_4, "\xef\xbf\xbd"},
    {"a NUL ends it", "ab\0cd"sv, PROFD_TEXT_LATIN_1, "ab"},
    {"no multiple of its kind", "abc"sv, PROFD_TEXT_UCS_2, ""},
    {"UTF-8", "caf\xc3\xa9"sv, PROFD_TEXT_BYTES, "caf\xc3\xa9"},
    {"malformed UTF-8", "a\xff"sv, PROFD_TEXT_BYTES, "a\xef\xbf\xbd"},
    {"absent", "work"sv, PROFD_TEXT_ABSENT, ""},
};

TEST(InterpreterTextTest, IsUtf8OfEachKind) {
  for (const TextCase& one : kTexts) {
    EXPECT_EQ(utf8_of({.bytes = one.bytes, .kind = static_cast<std::uint8_t>(one.kind)}), one.text)
        << one.name;
  }
}

RawText ascii(std::string_view text) { return {.bytes = text, .kind = PROFD_TEXT_LATIN_1}; }

RawCode code_of(std::string_view name, std::string_view qualname) {
  RawCode code{.kind = PROFD_RUNTIME_PYTHON, .layout = python::layout_number(11)};
  code.first_line = 7;
  code.units = 4;
  if (!name.empty()) code.texts[PROFD_CODE_NAME] = ascii(name);
  if (!qualname.empty()) code.texts[PROFD_CODE_QUALIFIER] = ascii(qualname);
  code.texts[PROFD_CODE_FILE] = ascii("/srv/app.py");
  return code;
}

TEST(PythonCodeObjectTest, IsCalledByItsQualifiedName) {
  EXPECT_EQ(decode_python_code(code_of("f", "A.f")).name, "A.f");
  EXPECT_EQ(decode_python_code(code_of("f", "")).name, "f");
  EXPECT_EQ(decode_python_code(code_of("", "")).name, "?");
  EXPECT_EQ(decode_python_code(code_of("f", "A.f")).file, "/srv/app.py");
}

TEST(PythonCodeObjectTest, HasTheLinesOfItsVersion) {
  RawCode code = code_of("f", "f");
  code.texts[PROFD_CODE_LINES] = {.bytes = "\x02\x01\x02\x01"sv, .kind = PROFD_TEXT_BYTES};
  code.layout = python::layout_number(9);
  DecodedCode decoded = decode_python_code(code);
  EXPECT_TRUE(is_valid(decoded));
  EXPECT_EQ(line_at(decoded, 0), 7U);
  EXPECT_EQ(line_at(decoded, 1), 8U);
  EXPECT_EQ(line_at(decoded, 3), 9U);
  code.texts[PROFD_CODE_LINES].bytes = "\x81\x00\xd9\x00\x00"sv;
  code.layout = python::layout_number(11);
  decoded = decode_python_code(code);
  EXPECT_EQ(line_at(decoded, 1), 7U);
  EXPECT_EQ(line_at(decoded, 2), 8U);
  EXPECT_EQ(line_at(decoded, PROFD_NO_POSITION), 7U);
}

// A layout of another user's choice can't select a decoder that is not there.
TEST(PythonCodeObjectTest, OfAnUnknownLayoutHasNoLines) {
  constexpr std::uint8_t kLayouts[] = {0, 9, 31, 255};
  for (const std::uint8_t layout : kLayouts) {
    RawCode code = code_of("f", "f");
    code.layout = layout;
    code.texts[PROFD_CODE_LINES] = {.bytes = "\x81\x00"sv, .kind = PROFD_TEXT_BYTES};
    const DecodedCode decoded = decode_python_code(code);
    EXPECT_TRUE(is_valid(decoded));
    EXPECT_TRUE(decoded.lines.empty()) << int{layout};
  }
}

}  // namespace
}  // namespace profd
