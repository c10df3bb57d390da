// Lines and inlined functions of file images, as the tools read them that read the original's.

#include <elf.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/elf/image.h"
#include "formats/elf/image_writer.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::Row;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// inner() is inlined into middle(), and that into first(), at 0x1110. Of 0x1120 the line alone is
// known. No symbol has 0x1300. second() was not hit in a place with frames.
FileImage image_with_lines() {
  FileImage image;
  image.original.type = ET_DYN;
  image.original.machine = kElfHostMachine;
  image.original.segments = {{.offset = 0x1000,
                              .vaddr = 0x1000,
                              .file_bytes = 0x1000,
                              .memory_bytes = 0x1000,
                              .flags = PF_R | PF_X}};
  image.name = "program";
  image.functions = {{0x1100, 0x80, "first"}, {0x1200, 0x80, "second"}, {0x1400, 0, "unsized"}};
  image.frames = {{0x1110,
                   {{"inner", "/src/inner.h", 7},
                    {"middle", "/src/middle.h", 9},
                    {"first", "/src/first.c", 11}}},
                  {0x1120, {{"first", "/src/first.c", 12}}},
                  {0x1300, {{"_Z7unknownv", "/src/unknown.cc", 5}}},
                  {0x1480, {{"unsized", "/src/asm.S", 3}}}};
  return image;
}

class ImageLinesTest : public testing::Test {
 protected:
  std::string write(const FileImage& image) {
    return scratch_.write("image.so", encode_file_image(image));
  }
  std::string llvm(const std::string& address) {
    return test::output_of("llvm-symbolizer --inlines --obj=" + write(image_with_lines()) + " " +
                           address);
  }
  std::string gnu(const std::string& address) {
    return test::output_of("addr2line -i -f -e " + write(image_with_lines()) + " " + address);
  }

  test::ScratchDirectory scratch_;
};

TEST_F(ImageLinesTest, InlinedFunctionsAreThoseOfTheFrames) {
  EXPECT_EQ(llvm("0x1110"),
            "inner\n/src/inner.h:7:0\nmiddle\n/src/middle.h:9:0\nfirst\n/src/first.c:11:0\n\n");
  EXPECT_EQ(gnu("0x1110"),
            "inner\n/src/inner.h:7\nmiddle\n/src/middle.h:9\nfirst\n/src/first.c:11\n");
}

TEST_F(ImageLinesTest, AnAddressHasItsOwnLineAlone) {
  EXPECT_EQ(llvm("0x1120"), "first\n/src/first.c:12:0\n\n");
  EXPECT_EQ(gnu("0x1120"), "first\n/src/first.c:12\n");
  EXPECT_THAT(llvm("0x1111"), testing::AllOf(StartsWith("first\n"), HasSubstr(":0:0\n")));
  EXPECT_THAT(llvm("0x1121"), testing::AllOf(StartsWith("first\n"), HasSubstr(":0:0\n")));
}

TEST_F(ImageLinesTest, AFunctionWithoutFramesKeepsItsName) {
  EXPECT_THAT(llvm("0x1210"), StartsWith("second\n"));
  EXPECT_THAT(gnu("0x1210"), StartsWith("second\n"));
}

TEST_F(ImageLinesTest, AnAddressThatNoSymbolHasIsNamedByItsFrames) {
  EXPECT_EQ(llvm("0x1300"), "unknown()\n/src/unknown.cc:5:0\n\n");
  EXPECT_THAT(llvm("0x1301"), StartsWith("[program]\n"));
  EXPECT_EQ(llvm("0x1480"), "unsized\n/src/asm.S:3:0\n\n");
}

TEST_F(ImageLinesTest, ToolsFindNoFault) {
  const std::string path = write(image_with_lines());
  EXPECT_THAT(test::output_of("llvm-dwarfdump --verify " + path), HasSubstr("No errors.\n"));
  EXPECT_THAT(test::output_of("readelf -Wa --debug-dump=info,decodedline " + path + " 2>&1"),
              Not(testing::ContainsRegex("[Ww]arning|[Ee]rror")));
}

TEST_F(ImageLinesTest, BothReadersShowInlinedFunctions) {
  Profile profile;
  profile.period = 1000;
  profile.mappings = {{0x1000, 0x2000, 0x1000, write(image_with_lines())}};
  profile.add_stack(std::vector<Frame>{{0x1110, PcKind::kExact}, {0x1211}}, 5);
  const auto path = scratch_.write("test.prof", encode_gperftools(profile));
  // Readers add the mark themselves.
  const std::map<std::string, Row> expected{{"inner (inline)", {5, 5}},
                                            {"middle (inline)", {0, 5}},
                                            {"first", {0, 5}},
                                            {"second", {0, 5}}};
  EXPECT_EQ(test::go_report(path).rows, expected);
  EXPECT_EQ(test::perl_report(path).rows, expected);
}

TEST_F(ImageLinesTest, FramesThatSayNoMoreThanSymbolsAddNothing) {
  FileImage image = image_with_lines();
  image.frames = {{0x1110, {{"first", "", 0}}}};
  const std::string with_frames = encode_file_image(image);
  image.frames.clear();
  EXPECT_EQ(with_frames, encode_file_image(image));
}

}  // namespace
}  // namespace profd
