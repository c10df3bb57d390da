#include "daemon/profiles/jit_image_part.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::SizeIs;

TEST(JitSymbol, IsShownCompletelyByBothReaders) {
  struct Case {
    std::string name;
    std::string symbol;
  };
  const Case cases[] = {
      {"JS:*fib /x/fib.js:1:13", "JS:*fib /x/fib.js:1:13"},
      {"int T.fib(int)", "int T.fib{int}"},
      {"RegExp:(a|b)<c>--d", "RegExp:{a|b}{c}--d"},
      {"[Call (StrictMode)]", "{Call {StrictMode}}"},
      {"py::A.m\xc3\xa9thode:/x", "py::A.m\xc3\xa9thode:/x"},
      {"a\nb\x1b[31m\x7f", "a?b?{31m?"},
      {"\xff\xc3", "\uFFFD\uFFFD"},
      {"\xc3(", "\uFFFD{"},
      {"\xf0\x9f\x98", "\uFFFD"},
      {"", "jit_1000"},
      {"_fini", "jit_1000"},
  };
  for (const Case& c : cases) EXPECT_EQ(jit_symbol(c.name, 0x1000), c.symbol) << c.name;
  EXPECT_LE(jit_symbol(std::string(100'000, 'x'), 0).size(), 1024U);
}

SampledJitCode code(std::uint64_t address, std::uint64_t bytes, const std::string& name) {
  return {.address = address,
          .bytes = bytes,
          .name = name,
          .source = SampledJitCode::kNoSource,
          .code = {},
          .debug_info = {}};
}

constexpr std::uint64_t kImageBase = 0x7f0000100000;

JitSamples two_at_one_place() {
  JitSamples samples;
  samples.functions = {code(kImageBase + 0x2000, 0x100, "old"),
                       code(kImageBase + 0x2080, 0x100, "new")};
  return samples;
}

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

TEST(JitImagePart, GivesEachFunctionAddressesOfItsOwn) {
  const JitSamples samples = two_at_one_place();
  const JitImagePart part(&samples, nullptr, {});
  const std::uint64_t old_start = part.place(0, kImageBase + 0x2000);
  const std::uint64_t new_start = part.place(1, kImageBase + 0x2080);
  EXPECT_FALSE(overlap(old_start, 0x100, new_start, 0x100));
  EXPECT_EQ(part.place(0, kImageBase + 0x2010), old_start + 0x10);
  std::vector<ProfileMapping> lines;
  part.add_lines("/x.so", lines);
  for (const std::uint64_t start : {old_start, new_start}) {
    EXPECT_TRUE(std::ranges::any_of(lines, [start](const ProfileMapping& line) {
      return line.start + 512 <= start && start + 0x100 <= line.end;
    })) << "pprof lists from 500 bytes before a function";
  }
}

TEST(JitImagePart, CutsItsRangesOutOfLinesOfMemoryButNotOfFiles) {
  const JitSamples samples = two_at_one_place();
  const ProfileMapping anonymous{kImageBase, kImageBase + 0x10000, 0, "[anon]"};
  const ProfileMapping file{kImageBase + 0x10000, kImageBase + 0x20000, 0x3000, "/lib/x.so"};
  const JitImagePart part(&samples, nullptr, std::vector{file});
  std::vector<ProfileMapping> lines{anonymous, file};
  part.add_lines("/jit.so", lines);
  for (const ProfileMapping& a : lines) {
    for (const ProfileMapping& b : lines) {
      const bool apart = &a == &b || !overlap(a.start, a.end - a.start, b.start, b.end - b.start);
      EXPECT_TRUE(apart) << std::hex << a.start << " " << b.start;
    }
  }
  EXPECT_EQ(std::ranges::count(lines, "/lib/x.so", &ProfileMapping::path), 1);
  EXPECT_EQ(std::ranges::count(lines, "[anon]", &ProfileMapping::path), 2);
}

TEST(JitImagePart, CutsALineOfAFileInMemoryAtItsOffsets) {
  JitSamples samples;
  samples.functions = {code(kImageBase + 0x2000, 0x100, "f")};
  const JitImagePart part(&samples, nullptr, {});
  std::vector<ProfileMapping> lines{
      {kImageBase, kImageBase + 0x10000, 0x5000, "/memfd:doublemapper"}};
  part.add_lines("/jit.so", lines);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0].file_offset, 0x5000U);
  EXPECT_EQ(lines[1].file_offset - 0x5000, lines[1].start - kImageBase);
}

TEST(JitImagePart, PlacesNoFunctionOverASampleWithoutAName) {
  JitSamples samples;
  samples.functions = {code(kImageBase + 0x2000, 0x100, "f")};
  samples.unnamed = {kImageBase + 0x2040};
  const JitImagePart part(&samples, nullptr, {});
  const std::uint64_t start = part.place(0, kImageBase + 0x2000);
  EXPECT_FALSE(overlap(start, 0x100, kImageBase + 0x2040, 1));
}

}  // namespace
}  // namespace profd
