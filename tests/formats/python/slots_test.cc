// The shapes of the two functions that lead to a thread's state, as compilers and linkers make
// them. The values follow from the instructions beside the bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/python/recognize.h"
#include "tests/formats/python/made_code.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kCode = 0x401000;
constexpr std::uint64_t kGot = 0x500018;
constexpr std::uint64_t kRuntime = 0x600000;
constexpr std::uint64_t kTss = kRuntime + 0x250;
constexpr std::uint64_t kKey = kTss + 4;
constexpr std::uint64_t kOutside = 0x480000;  // a function

std::optional<std::uint64_t> got_of_runtime(const void* /*context*/, std::uint64_t entry) {
  return entry == kGot ? std::optional(kRuntime) : std::nullopt;
}

std::optional<python::Slot> gilstate_slot(const MadeCode& made, std::uint64_t key) {
  return python::find_gilstate_slot(made.code(), kCode, key, &got_of_runtime, nullptr);
}

struct Shape {
  std::string name;
  MadeCode code;
};

// Debian's executables: the program's own runtime, pthread_getspecific() inlined.
MadeCode shape_of_program() {
  return MadeCode(kCode)
      .add("\x48\x83\x3d")
      .to(kRuntime + 0x248, 1)
      .add("\x00")  // cmpq $0, initialized(%rip)
      .add("\x0f\x84")
      .to(kOutside)  // je outside
      .add("\x8b\x3d")
      .to(kKey)  // mov key(%rip), %edi
      .add("\xe9")
      .to(kOutside);  // jmp pthread_getspecific
}

// Shared libraries of 3.8 to 3.11.
MadeCode shape_of_library() {
  return MadeCode(kCode)
      .add("\x48\x8b\x05")
      .to(kGot)                           // mov runtime@GOTPCREL(%rip), %rax
      .add("\x48\x83\xb8\x48\x02\0\0\0")  // cmpq $0, 0x248(%rax)
      .add("\x74\x0f")                    // je the end
      .add("\x48\x8d\xb8\x50\x02\0\0")    // lea 0x250(%rax), %rdi
      .add("\xe9")
      .to(kOutside)          // jmp PyThread_tss_get
      .add("\x0f\x1f\x00")   // nop
      .add("\x31\xc0\xc3");  // xor %eax, %eax; ret
}

// The same with the key read before pthread_getspecific().
MadeCode shape_of_library_with_key() {
  return MadeCode(kCode)
      .add("\xf3\x0f\x1e\xfa")  // endbr64
      .add("\x48\x8b\x05")
      .to(kGot)                     // mov runtime@GOTPCREL(%rip), %rax
      .add("\x8b\xb8\x54\x02\0\0")  // mov 0x254(%rax), %edi
      .add("\xff\x25")
      .to(kOutside);  // jmp *pthread_getspecific@GOTPCREL(%rip)
}

// 3.12 and 3.13 without LTO.
MadeCode shape_with_a_call() {
  return MadeCode(kCode)
      .add("\x48\x8b\x05")
      .to(kGot)                         // mov runtime@GOTPCREL(%rip), %rax
      .add("\x53")                      // push %rbx
      .add("\x48\x8d\x98\x50\x02\0\0")  // lea 0x250(%rax), %rbx
      .add("\x48\x89\xdf")              // mov %rbx, %rdi
      .add("\xe8")
      .to(kOutside)             // call PyThread_tss_is_created
      .add("\x85\xc0\x74\x0d")  // test %eax, %eax; je the end
      .add("\x48\x89\xdf\x5b")  // mov %rbx, %rdi; pop %rbx
      .add("\xe9")
      .to(kOutside)              // jmp PyThread_tss_get
      .add("\x0f\x1f\x40\x00")   // nop
      .add("\x31\xc0\x5b\xc3");  // xor %eax, %eax; pop %rbx; ret
}

// 3.12.10 by another compiler, in a library that comes with a product: the offset first.
MadeCode shape_with_a_sum() {
  return MadeCode(kCode)
      .add("\x53")  // push %rbx
      .add("\xbb")
      .int32(kTss - kRuntime)  // mov $0x250, %ebx
      .add("\x48\x03\x1d")
      .to(kGot)             // add runtime@GOTPCREL(%rip), %rbx
      .add("\x48\x89\xdf")  // mov %rbx, %rdi
      .add("\xe8")
      .to(kOutside)             // call PyThread_tss_is_created
      .add("\x85\xc0\x74\x09")  // test %eax, %eax; je the end
      .add("\x48\x89\xdf\x5b")  // mov %rbx, %rdi; pop %rbx
      .add("\xe9")
      .to(kOutside)              // jmp PyThread_tss_get
      .add("\x31\xc0\x5b\xc3");  // xor %eax, %eax; pop %rbx; ret
}

// A program with fixed addresses.
MadeCode shape_without_pic() {
  return MadeCode(kCode)
      .add("\x80\x3c\x25")
      .int32(kRuntime + 0x248)
      .add("\0")        // cmpb $0, initialized
      .add("\x74\x0a")  // je the end
      .add("\xbf")
      .int32(kTss)  // mov $tss, %edi
      .add("\xe9")
      .to(kOutside)  // jmp PyThread_tss_get
      .add("\x31\xc0\xc3");
}

// The linker made an address of the load from the GOT.
MadeCode shape_with_a_relaxed_load() {
  return MadeCode(kCode)
      .add("\x48\x8d\x05")
      .to(kRuntime)                     // lea runtime(%rip), %rax
      .add("\x48\x8d\xb8\x50\x02\0\0")  // lea 0x250(%rax), %rdi
      .add("\xe9")
      .to(kOutside);
}

// The compiler put the path without a state first.
MadeCode shape_with_a_jump_over_the_end() {
  return MadeCode(kCode)
      .add("\x48\x8b\x05")
      .to(kGot)                       // mov runtime@GOTPCREL(%rip), %rax
      .add("\x83\xb8\x50\x02\0\0\0")  // cmpl $0, 0x250(%rax)
      .add("\x75\x04")                // jne behind the end
      .add("\x31\xc0\xc3\x90")        // xor %eax, %eax; ret; nop
      .add("\x48\x05\x50\x02\0\0")    // add $0x250, %rax
      .add("\x48\x89\xc7")            // mov %rax, %rdi
      .add("\xe9")
      .to(kOutside);
}

TEST(PythonSlotsTest, TheKeyIsFoundInEachShape) {
  const std::vector<Shape> shapes = {
      {"program", shape_of_program()},
      {"library", shape_of_library()},
      {"library, key", shape_of_library_with_key()},
      {"a call", shape_with_a_call()},
      {"a sum", shape_with_a_sum()},
      {"without PIC", shape_without_pic()},
      {"relaxed", shape_with_a_relaxed_load()},
      {"over the end", shape_with_a_jump_over_the_end()},
  };
  for (const Shape& shape : shapes) {
    for (const std::uint64_t known : {std::uint64_t{kKey}, std::uint64_t{0}}) {
      const auto slot = gilstate_slot(shape.code, known);
      ASSERT_TRUE(slot) << shape.name << " " << known;
      EXPECT_EQ(slot->form, PROFD_SLOT_KEY) << shape.name;
      EXPECT_EQ(slot->where, static_cast<std::int64_t>(kKey)) << shape.name;
      EXPECT_EQ(slot->add, 0) << shape.name;
    }
    // Another key than that of the version's layout.
    EXPECT_FALSE(gilstate_slot(shape.code, kKey + 8)) << shape.name;
  }
}

struct CurrentShape {
  std::string name;
  MadeCode code;
  std::uint8_t form;
  std::int64_t where;
  std::int16_t add;
};

std::vector<CurrentShape> current_shapes() {
  std::vector<CurrentShape> shapes;
  shapes.push_back({"program",
                    MadeCode(kCode)
                        .add("\xf3\x0f\x1e\xfa")                           // endbr64
                        .add("\x64\x48\x8b\x04\x25\xe8\xff\xff\xff\xc3"),  // mov %fs:-24, %rax
                    PROFD_SLOT_TLS, -24, 0});
  shapes.push_back({"relaxed from the GOT",
                    MadeCode(kCode)
                        .add("\x48\xc7\xc0\xe0\xff\xff\xff")  // mov $-32, %rax
                        .add("\x64\x48\x8b\x00\xc3"),         // mov %fs:(%rax), %rax; ret
                    PROFD_SLOT_TLS, -32, 0});
  shapes.push_back({"by the control block",
                    MadeCode(kCode)
                        .add("\x64\x48\x8b\x04\x25\0\0\0\0")  // mov %fs:0, %rax
                        .add("\x48\x8d\x80\xd8\xff\xff\xff")  // lea -40(%rax), %rax
                        .add("\x48\x8b\x00\xc3"),             // mov (%rax), %rax; ret
                    PROFD_SLOT_TLS, -40, 0});
  shapes.push_back({"general dynamic",
                    MadeCode(kCode)
                        .add("\x48\x83\xec\x08")  // sub $8, %rsp
                        .add("\x66\x48\x8d\x3d")
                        .to(kGot)  // lea pair(%rip), %rdi
                        .add("\x66\x66\x48\xe8")
                        .to(kOutside)                  // call __tls_get_addr
                        .add("\x48\x8b\x00")           // mov (%rax), %rax
                        .add("\x48\x83\xc4\x08\xc3"),  // add $8, %rsp; ret
                    PROFD_SLOT_DYNAMIC_TLS, kGot, 0});
  shapes.push_back({"local dynamic, frame pointer",
                    MadeCode(kCode)
                        .add("\x55\x48\x89\xe5")  // push %rbp; mov %rsp, %rbp
                        .add("\x48\x8d\x3d")
                        .to(kGot)  // lea pair(%rip), %rdi
                        .add("\xe8")
                        .to(kOutside)                   // call __tls_get_addr
                        .add("\x48\x8b\x80\x18\0\0\0")  // mov 24(%rax), %rax
                        .add("\x5d\xc3"),               // pop %rbp; ret
                    PROFD_SLOT_DYNAMIC_TLS, kGot, 24});
  return shapes;
}

TEST(PythonSlotsTest, TheThreadLocalVariableIsFoundInEachShape) {
  for (const CurrentShape& shape : current_shapes()) {
    const auto slot = python::find_current_slot(shape.code.code(), kCode);
    ASSERT_TRUE(slot) << shape.name;
    EXPECT_EQ(slot->form, shape.form) << shape.name;
    EXPECT_EQ(slot->where, shape.where) << shape.name;
    EXPECT_EQ(slot->add, shape.add) << shape.name;
    // 3.15 has the gilstate's slot in one too.
    const auto gilstate = gilstate_slot(shape.code, 0);
    ASSERT_TRUE(gilstate) << shape.name;
    EXPECT_EQ(gilstate->form, shape.form) << shape.name;
    EXPECT_EQ(gilstate->where, shape.where) << shape.name;
    EXPECT_FALSE(gilstate_slot(shape.code, kKey)) << shape.name;
  }
}

// The word of the stack protector is above fsbase, and is not returned.
TEST(PythonSlotsTest, OtherWordsOfTheThreadAreNoSlot) {
  const auto protector = MadeCode(kCode)
                             .add("\x64\x48\x8b\x04\x25\x28\0\0\0")  // mov %fs:40, %rax
                             .add("\xc3");
  EXPECT_FALSE(python::find_current_slot(protector.code(), kCode));
  const auto not_returned = MadeCode(kCode)
                                .add("\x64\x48\x8b\x0c\x25\xf8\xff\xff\xff")  // mov %fs:-8, %rcx
                                .add("\x31\xc0\xc3");
  EXPECT_FALSE(python::find_current_slot(not_returned.code(), kCode));
  const auto lost = MadeCode(kCode)
                        .add("\x64\x48\x8b\x04\x25\xf8\xff\xff\xff")  // mov %fs:-8, %rax
                        .add("\xe8")
                        .to(kOutside)  // call
                        .add("\xc3");
  EXPECT_FALSE(python::find_current_slot(lost.code(), kCode));
}

TEST(PythonSlotsTest, CodeThatIsCutOrUnknownHasNoSlot) {
  const MadeCode whole = shape_of_library();
  for (std::size_t bytes = 0; bytes < 26; ++bytes) {
    EXPECT_FALSE(python::find_gilstate_slot(whole.code().first(bytes), kCode, kKey, &got_of_runtime,
                                            nullptr))
        << bytes;
  }
  const auto unknown = MadeCode(kCode).add("\xd9\xee").add("\xbf").int32(kTss).add("\xe9").to(0);
  EXPECT_FALSE(gilstate_slot(unknown, kKey));
  EXPECT_FALSE(gilstate_slot(MadeCode(kCode), kKey));
}

}  // namespace
}  // namespace profd::test
