// What a child may answer about an interpreter, and how its version reads.

#include "formats/interpreters/runtime.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

FoundRuntime known_runtime() {
  FoundRuntime found;
  found.verdict = RuntimeVerdict::kKnown;
  found.kind = PROFD_RUNTIME_PYTHON;
  found.version = 0x030b02;
  found.runtime.kind = PROFD_RUNTIME_PYTHON;
  found.runtime.layout = 4;
  found.runtime.slot_form[1] = PROFD_SLOT_KEY;
  found.runtime.loop[0] = {0x1000, 0x200};
  found.runtime.loop[1] = {0x8000, 0x10};
  return found;
}

TEST(FoundRuntimeTest, OnlyWhatTheProgramsCanUseIsValid) {
  EXPECT_TRUE(is_valid(FoundRuntime{}));
  EXPECT_TRUE(is_valid(known_runtime()));
  struct Damage {
    std::string name;
    std::function<void(FoundRuntime&)> apply;
  };
  const std::vector<Damage> damages = {
      {"verdict", [](auto& found) { found.verdict = static_cast<RuntimeVerdict>(8); }},
      {"kind", [](auto& found) { found.kind = PROFD_RUNTIME_KIND_COUNT; }},
      {"no kind", [](auto& found) { found.kind = PROFD_RUNTIME_NONE; }},
      {"another kind", [](auto& found) { found.runtime.kind = PROFD_RUNTIME_PHP; }},
      {"no layout", [](auto& found) { found.runtime.layout = 0; }},
      {"layout", [](auto& found) { found.runtime.layout = PROFD_MAX_LAYOUTS; }},
      {"libc", [](auto& found) { found.runtime.libc = PROFD_LIBC_COUNT; }},
      {"slot", [](auto& found) { found.runtime.slot_form[0] = PROFD_SLOT_FORM_COUNT; }},
      {"no slot", [](auto& found) { found.runtime.slot_form[1] = PROFD_SLOT_NONE; }},
      {"loop",
       [](auto& found) {
         found.runtime.loop[1] = {0xfffffff0, 0x11};
       }},
      {"a refusal with numbers", [](auto& found) { found.verdict = RuntimeVerdict::kMalformed; }},
      {"none with a kind", [](auto& found) { found.verdict = RuntimeVerdict::kNone; }},
      {"version", [](auto& found) { found.version = 0x1000000; }},
  };
  for (const Damage& damage : damages) {
    FoundRuntime found = known_runtime();
    damage.apply(found);
    EXPECT_FALSE(is_valid(found)) << damage.name;
  }
}

TEST(FoundRuntimeTest, ItsTextHasTheVersionAsFarAsItIsKnown) {
  FoundRuntime found = known_runtime();
  EXPECT_EQ(text_of(found), "python 3.11.2");
  found.version = 0x030800 | kUnknownPatch;
  EXPECT_EQ(text_of(found), "python 3.8");
  found.version = 0;
  EXPECT_EQ(text_of(found), "python");
  found.kind = PROFD_RUNTIME_PHP;
  found.version = 0x08021c;
  EXPECT_EQ(text_of(found), "php 8.2.28");
  EXPECT_EQ(text_of(FoundRuntime{}), "");
}

TEST(FoundRuntimeTest, TheLoopIsAllOfItsParts) {
  const profd_runtime runtime = known_runtime().runtime;
  for (const std::uint64_t offset : {0x1000U, 0x11ffU, 0x8000U, 0x800fU}) {
    EXPECT_TRUE(is_loop(runtime, offset)) << offset;
  }
  for (const std::uint64_t offset : {0U, 0xfffU, 0x1200U, 0x7fffU, 0x8010U}) {
    EXPECT_FALSE(is_loop(runtime, offset)) << offset;
  }
  EXPECT_FALSE(is_loop(runtime, 0x100001000));
  EXPECT_FALSE(is_loop(profd_runtime{}, 0));
}

}  // namespace
}  // namespace profd::test
