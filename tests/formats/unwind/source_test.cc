// Properties of a file before its unwind rows are made (formats/unwind/cfi_tables.h).

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "formats/unwind/cfi_tables.h"
#include "tests/formats/changed_files.h"

namespace profd {
namespace {

using test::open_file;

constexpr DigestKey kKey{{0x1234, 0x5678}};

class UnwindSourceTest : public test::ChangedFilesTest {};

TEST_F(UnwindSourceTest, DescribesAFileBeforeItsRowsAreMade) {
  const auto source = read_unwind_source(open_file(STACK_PIE).get(), kKey);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->build_id, "\x01\x23\x45\x67\x89\xab\xcd\xef");
  EXPECT_TRUE(source->has_eh_frame);
  EXPECT_FALSE(source->has_debug_frame);
  EXPECT_EQ(source->debug_link, "");
  const auto debug = read_unwind_source(open_file(CFI_SHAPES_DEBUG).get(), kKey);
  ASSERT_TRUE(debug);
  EXPECT_TRUE(debug->has_debug_frame);
}

TEST_F(UnwindSourceTest, ReadsTheDebugLinkThatObjcopyWrites) {
  const std::string debug = made_by("objcopy --only-keep-debug " STACK_PIE " {}", "stack.debug");
  const std::string linked =
      made_by("objcopy --add-gnu-debuglink=" + debug + " " STACK_PIE " {}", "linked");
  const auto source = read_unwind_source(open_file(linked).get(), kKey);
  ASSERT_TRUE(source);
  EXPECT_EQ(source->debug_link, "stack.debug");
  std::uint32_t crc = 0;
  const std::string said =
      test::output_of("readelf --debug-dump=links " + linked + " | grep -i crc");
  ASSERT_EQ(std::sscanf(said.c_str() + said.find("0x"), "%x", &crc), 1) << said;
  EXPECT_EQ(source->debug_link_crc, crc);
  const std::string with_path =
      changed(linked, [](std::string& file) { file[file.find("stack.debug")] = '/'; });
  EXPECT_EQ(read_unwind_source(open_file(with_path).get(), kKey)->debug_link, "");
}

TEST_F(UnwindSourceTest, TheDigestCoversAllInputsOfTheRows) {
  const auto digest_of = [](const std::string& path, const DigestKey& key = kKey) {
    const auto source = read_unwind_source(open_file(path).get(), key);
    EXPECT_TRUE(source);
    return std::pair(source->digest[0], source->digest[1]);
  };
  const auto original = digest_of(UNCOVERED);
  EXPECT_EQ(digest_of(changed(UNCOVERED, [](auto&) {})), original) << "another file, the same rows";
  EXPECT_NE(digest_of(UNCOVERED, DigestKey{{1, 2}}), original) << "another key";
  auto at = test::nm_functions(UNCOVERED);
  const std::string bytes = test::read_file(UNCOVERED);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  struct Case {
    const char* what;
    std::size_t offset;
    bool same;
  };
  for (const Case& c : {
           Case{"the restorer's code", at["__restore_rt"] + 3, false},
           {"the entry's code", at["_start"] + 1, false},
           {"the entry's address", offsetof(Elf64_Ehdr, e_entry), false},
           {"code that has CFI", at["covered"], true},
           {"code that no row is made from", at["main"] + 2, true},
       }) {
    const std::string other =
        changed(UNCOVERED, [&](std::string& file) { file[c.offset] ^= 0x20; });
    EXPECT_EQ(digest_of(other) == original, c.same) << c.what;
  }
  const std::string shapes = test::read_file(CFI_SHAPES);
  const std::size_t cie = shapes.find(std::string("zR\0\x01\x78\x10\x01", 7));
  ASSERT_NE(cie, std::string::npos);
  const std::string other = changed(CFI_SHAPES, [&](std::string& file) { file[cie + 4] ^= 0x10; });
  EXPECT_NE(digest_of(other), digest_of(CFI_SHAPES)) << "a CIE";
}

}  // namespace
}  // namespace profd
