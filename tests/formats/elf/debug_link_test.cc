// Debug files as objcopy makes and links them.

#include "formats/elf/debug_link.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "formats/elf/elf_file.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using test::BuiltCode;
using test::open_file;

constexpr const char* kSource = "int f(void) { return 1; } int main(void) { return f(); }";

class DebugLinkTest : public testing::Test {
 protected:
  // "program", stripped, with a link to its debug file "program.debug". The linker's option about
  // the build id is `id`.
  void build(const std::string& id) {
    (void)built_.build("whole", kSource, "gcc -g -Wl,--build-id=" + id);
    built_.run("objcopy --only-keep-debug whole program.debug");
    built_.run("objcopy --strip-all --add-gnu-debuglink=program.debug whole program");
  }
  [[nodiscard]] Result<DebugFileMatch> match(const std::string& debug_file) const {
    const UniqueFd file = open_file(built_.path("program"));
    const UniqueFd debug = open_file(built_.path(debug_file));
    return match_debug_file(file.get(), debug.get());
  }
  // With a section of these bytes instead of objcopy's.
  [[nodiscard]] std::optional<DebugLink> link_of(const std::string& section) {
    std::ofstream(built_.path("section"), std::ios::binary) << section;
    (void)built_.build("bare", kSource, "gcc");
    built_.run("objcopy --add-section .gnu_debuglink=section bare with_link");
    const UniqueFd fd = open_file(built_.path("with_link"));
    return read_debug_link(CodeFile::open(fd.get()).value());
  }

  BuiltCode built_;
};

TEST_F(DebugLinkTest, EqualBuildIdsMatch) {
  build("0x0102030405");
  EXPECT_EQ(match("program.debug").value(), DebugFileMatch::kMatches);
  const UniqueFd fd = open_file(built_.path("program"));
  EXPECT_EQ(read_elf_summary(fd.get())->debug_link, "program.debug");
}

TEST_F(DebugLinkTest, AnotherBuildIdDoesNotMatchWhateverTheLinkSays) {
  build("0x0102030405");
  (void)built_.build("other", kSource, "gcc -g -Wl,--build-id=0x0102030406");
  EXPECT_EQ(match("other").value(), DebugFileMatch::kOtherBuildId);
}

TEST_F(DebugLinkTest, WithoutBuildIdTheChecksumDecides) {
  build("none");
  EXPECT_EQ(match("program.debug").value(), DebugFileMatch::kMatches);
  std::ofstream(built_.path("program.debug"), std::ios::app) << "x";
  EXPECT_EQ(match("program.debug").value(), DebugFileMatch::kOtherChecksum);
}

TEST_F(DebugLinkTest, WithoutBuildIdAndLinkNoFileMatches) {
  (void)built_.build("program", kSource, "gcc -g -Wl,--build-id=none");
  EXPECT_EQ(match("program").value(), DebugFileMatch::kOtherChecksum);
}

TEST_F(DebugLinkTest, ADebugFileWhoseChecksumTakesTooLongIsTooLarge) {
  build("none");
  // A hole: the file takes no space.
  built_.run("truncate -s 129M program.debug");
  EXPECT_EQ(match("program.debug").value(), DebugFileMatch::kTooLarge);
}

TEST_F(DebugLinkTest, WhatIsNoElfFileIsAnError) {
  build("none");
  std::ofstream(built_.path("text")) << "no ELF file";
  EXPECT_FALSE(match("text"));
}

TEST_F(DebugLinkTest, ALinkIsOneName) {
  using namespace std::string_literals;
  const auto good = link_of("a.debug\0\x26\x39\xf4\xcb"s);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->name, "a.debug");
  EXPECT_EQ(good->crc, 0xcbf43926U);
  for (const std::string& bad :
       {"../a\0\0\0\0abcd"s, "/etc/passwd\0abcd"s, "..\0\0abcd"s, ".\0\0\0abcd"s, "\0\0\0\0abcd"s,
        "a.debug\0abc"s, "a.debug"s, std::string(256, 'a') + "\0\0\0\0abcd"s,
        std::string(100'000, 'a') + "\0\0\0\0abcd"s}) {
    EXPECT_FALSE(link_of(bad)) << bad.substr(0, 20);
  }
}

}  // namespace
}  // namespace profd
