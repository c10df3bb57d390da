// Sections made as Fedora's find-debuginfo makes them: by nm, objcopy and xz.

#include "formats/symbols/mini_debug_info.h"

#include <chrono>

#include <gtest/gtest.h>

#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using test::text_at;

class MiniDebugInfoTest : public testing::Test {
 protected:
  static constexpr const char* kSource = R"(
    __attribute__((noinline)) static int local(int x) { return x * 3 + 1; }
    __attribute__((noinline)) int exported(int x) { return local(x) - 7; }
    int main(int argc, char** argv) { return exported(argc); }
  )";

  void SetUp() override {
    built_.build("program", kSource, "gcc -O1 -g -rdynamic");
    for (const auto& symbol : test::list_code(built_.path("program"))) {
      if (symbol.name == "local") local_ = symbol.start;
      if (symbol.name == "exported") exported_ = symbol.start;
    }
    ASSERT_NE(local_ * exported_, 0U);
  }

  // The stripped program with the file `content` in its section.
  std::string with_section(const std::string& content) {
    built_.run("objcopy --add-section .gnu_debugdata=" + content + " stripped with_section");
    return built_.path("with_section");
  }

  // The functions that .dynsym lacks.
  void make_mini() {
    built_.run(
        "strip -o stripped program && nm -D program --format=posix --defined-only |"
        " awk '{ print $1 }' | sort >dynamic && nm program --format=posix --defined-only |"
        " awk '{ if ($2 == \"T\" || $2 == \"t\" || $2 == \"D\") print $1 }' | sort >functions &&"
        " comm -13 dynamic functions >keep && objcopy --only-keep-debug program debug &&"
        " objcopy -S --remove-section .gdb_index --remove-section .comment"
        " --keep-symbols=keep debug mini");
  }

  test::BuiltCode built_;
  std::uint64_t local_ = 0;
  std::uint64_t exported_ = 0;
};

TEST_F(MiniDebugInfoTest, NamesTheFunctionsThatAreNotExported) {
  make_mini();
  EXPECT_EQ(text_at(built_.path("stripped"), local_), "(gap)");
  built_.run("xz -k mini");
  const std::string path = with_section("mini.xz");
  EXPECT_EQ(text_at(path, local_), "local (minidebuginfo)");
  EXPECT_EQ(text_at(path, exported_), "exported (dynsym)");
  EXPECT_EQ(text_at(path, local_, built_.path("debug")), "local (debug_file)");
}

TEST_F(MiniDebugInfoTest, ABrokenSectionIsIgnored) {
  make_mini();
  built_.run(
      "xz -k mini; head -c 300 mini.xz >cut; cp mini.xz wrong; printf x |"
      " dd of=wrong bs=1 seek=200 conv=notrunc status=none; : >empty; echo text >text;"
      " echo no ELF file | xz >other");
  for (const char* content : {"cut", "wrong", "text", "other", "mini"}) {
    const std::string path = with_section(content);
    EXPECT_EQ(text_at(path, local_), "(gap)") << content;
    EXPECT_EQ(text_at(path, exported_), "exported (dynsym)") << content;
  }
}

TEST_F(MiniDebugInfoTest, ABombEndsAtTheLimit) {
  make_mini();
  built_.run("head -c 300M /dev/zero | xz -1 >bomb; xz -k -9e --lzma2=dict=256MiB mini");
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(text_at(with_section("bomb"), exported_), "exported (dynsym)");
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  EXPECT_EQ(text_at(with_section("mini.xz"), local_), "(gap)") << "needs 256 MiB";
}

}  // namespace
}  // namespace profd
