#include "formats/python/prologue.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "formats/python/layouts.h"

namespace profd::python {
namespace {

constexpr std::size_t kStoreAt = 0x30;
constexpr std::size_t kFarAt = 0x200;

void put(std::string& code, std::size_t at, const std::string& bytes) {
  code.replace(at, bytes.size(), bytes);
}

// jmp `to`, at `at`
void put_jump(std::string& code, std::size_t at, std::int32_t to) {
  const std::int32_t distance = to - static_cast<std::int32_t>(at + 5);
  code[at] = '\xe9';
  std::memcpy(code.data() + at + 1, &distance, sizeof distance);
}

// The start of a loop that links its cframe and is entered again at 0x76.
std::string made_loop() {
  std::string code(0x400, '\x90');
  put(code, kStoreAt, "\x48\x89\x47\x38");  // mov %rax,0x38(%rdi)
  put_jump(code, kFarAt, 0x8a);
  put_jump(code, kFarAt + 0x40, 0x76);
  return code;
}

std::uint8_t prologue_of(const std::string& code) {
  return find_prologue(code, find_version(11)->layout);
}

TEST(PythonPrologueTest, EndsWhereTheRestOfTheLoopJumpsFirst) {
  EXPECT_EQ(prologue_of(made_loop()), 0x76);
  std::string conditional = made_loop();
  put(conditional, kFarAt + 0x80, "\x0f\x8e\xda\xfd\xff\xff");  // jle 0x60
  EXPECT_EQ(prologue_of(conditional), 0x60);
  std::string wide = made_loop();
  put(wide, kStoreAt, "\x4d\x89\x6e\x38");  // mov %r13,0x38(%r14)
  EXPECT_EQ(prologue_of(wide), 0x76);
}

// A jump back to where the cframe is not linked yet, and one within the entry, say nothing.
TEST(PythonPrologueTest, OtherJumpsAreNone) {
  std::string code = made_loop();
  put_jump(code, kFarAt + 0x80, 0x1a);
  put_jump(code, 0x50, 0x60);
  EXPECT_EQ(prologue_of(code), 0x76);
}

TEST(PythonPrologueTest, IsUnknownWithoutBoth) {
  std::string code = made_loop();
  put(code, kStoreAt, "\x48\x89\x44\x38");  // with an index
  EXPECT_EQ(prologue_of(code), 0);
  code = made_loop();
  put(code, kStoreAt, "\x48\x89\x47\x30");  // of another member
  EXPECT_EQ(prologue_of(code), 0);
  code = made_loop();
  put_jump(code, kFarAt, 0x300);
  put_jump(code, kFarAt + 0x40, 0x100);
  EXPECT_EQ(prologue_of(code), 0);
  EXPECT_EQ(prologue_of(made_loop().substr(0, kStoreAt + 2)), 0);
  EXPECT_EQ(prologue_of(""), 0);
  EXPECT_EQ(find_prologue(made_loop(), find_version(13)->layout), 0);
}

}  // namespace
}  // namespace profd::python
