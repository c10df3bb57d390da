#include "formats/jit/image.h"

#include <algorithm>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/jit/jitdump_reader.h"
#include "formats/profile/gperftools_writer.h"
#include "tests/formats/jit/files.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::Row;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kImageCode = 0x7f1234560000;
constexpr std::uint64_t kMoved = std::uint64_t{1} << 51;

// push %rbp; mov %rsp,%rbp; nop...; pop %rbp; ret
std::string code_of(std::size_t bytes) {
  std::string code = "\x55\x48\x89\xe5";
  code.resize(bytes - 2, '\x90');
  return code + "\x5d\xc3";
}

JitImageFunction function_of(const std::string& name, std::uint64_t address,
                             std::uint64_t bytes = 0x100) {
  return {address, bytes, name, code_of(bytes), {}};
}

std::string hexadecimal(std::uint64_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

class JitImageTest : public testing::Test {
 protected:
  // Writes the image of `image_`, and a profile with its mapping lines beside it.
  void encode(std::span<const AddressRange> occupied = {},
              std::span<const std::uint64_t> unnamed = {}) {
    layout_ = lay_out_jit_image(image_.functions, occupied, unnamed);
    encoded_ = encode_jit_image(image_, layout_);
    path_ = scratch_.write("jit-node-1.so", encoded_.bytes);
    profile_.period = 1000;
    profile_.build_dir = scratch_.path();
    for (const ImagePlacement& place : layout_.placements) {
      profile_.mappings.push_back(
          {place.start, place.end, place.file_offset, "$build/jit-node-1.so"});
    }
  }

  // Adds `samples` whose leaf is the function's instruction at `offset`, with the other functions
  // as callers.
  void sample(std::size_t function, std::uint64_t offset, std::uint64_t samples,
              const std::vector<std::size_t>& callers = {}) {
    std::vector<Frame> stack{{layout_.addresses[function] + offset, PcKind::kExact}};
    for (const std::size_t caller : callers) stack.push_back({layout_.addresses[caller] + 8});
    profile_.add_stack(stack, samples);
  }

  std::string write_profile() {
    return scratch_.write("test.prof", encode_gperftools(profile_)).string();
  }
  std::string go(const std::string& options) {
    return test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                           " -symbolize=local " + options + " " + write_profile());
  }
  std::string perl(const std::string& options) {
    return test::output_of("google-pprof " + options + " /bin/true " + write_profile());
  }
  std::string llvm_symbolizer(std::uint64_t address) {
    return test::output_of("llvm-symbolizer --obj=" + path_.string() + " " + hexadecimal(address));
  }
  std::string addr2line(std::uint64_t address) {
    return test::output_of("addr2line -f -e " + path_.string() + " " + hexadecimal(address));
  }

  test::ScratchDirectory scratch_;
  JitImage image_;
  JitImageLayout layout_;
  EncodedJitImage encoded_;
  std::filesystem::path path_;
  Profile profile_;
};

std::vector<std::uint64_t> addresses_of(std::vector<JitImageFunction> functions,
                                        std::vector<AddressRange> occupied = {},
                                        std::vector<std::uint64_t> unnamed = {}) {
  return lay_out_jit_image(functions, occupied, unnamed).addresses;
}

TEST(JitImageLayout, KeepsAddressesThatNoOtherFunctionHas) {
  EXPECT_THAT(addresses_of({function_of("a", kImageCode), function_of("b", kImageCode + 0x100)}),
              ElementsAre(kImageCode, kImageCode + 0x100));
}

TEST(JitImageLayout, MovesAllButTheFirstFunctionOfAnAddress) {
  const auto addresses = addresses_of(
      {function_of("a", kImageCode), function_of("b", kImageCode, 0x80),
       function_of("c", kImageCode + 0xff, 0x80), function_of("d", kImageCode - 0x10, 0x11)});
  EXPECT_EQ(addresses[0], kImageCode);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GT(addresses[i], kMoved) << i;
  EXPECT_GE(addresses[2], addresses[1] + 0x80);
  EXPECT_GE(addresses[3], addresses[2] + 0x80);
}

TEST(JitImageLayout, MovesFunctionsThatOverlapOtherMappingsOrAnUnnamedSample) {
  const std::vector<AddressRange> node{{0x400000, 0x2000000}};
  EXPECT_GT(addresses_of({function_of("builtin", 0x18c4000)}, node)[0], kMoved);
  EXPECT_GT(addresses_of({function_of("straddles", 0x1ffffff)}, node)[0], kMoved);
  EXPECT_EQ(addresses_of({function_of("behind", 0x2000000)}, node)[0], 0x2000000U);
  EXPECT_GT(addresses_of({function_of("f", kImageCode)}, {}, {kImageCode + 0xff})[0], kMoved);
  EXPECT_EQ(
      addresses_of({function_of("f", kImageCode)}, {}, {kImageCode - 1, kImageCode + 0x101})[0],
      kImageCode);
}

TEST(JitImageLayout, HasALineForEachRegionAndNoneThatOverlapsAnother) {
  const std::vector<JitImageFunction> functions{
      function_of("a", kImageCode + 0x2100), function_of("b", kImageCode + 0x100000),
      function_of("behind a library", kImageCode + 0x202000),
      function_of("moved", kImageCode + 0x2100)};
  const std::vector<AddressRange> occupied{{kImageCode + 0x200000, kImageCode + 0x202000}};
  const auto layout = lay_out_jit_image(functions, occupied);
  ASSERT_EQ(layout.placements.size(), 3U);
  EXPECT_EQ(layout.placements[0].start, kImageCode + 0x1000)
      << "pprof lists code from 500 bytes before";
  EXPECT_EQ(layout.placements[0].end, kImageCode + 0x100100);
  EXPECT_EQ(layout.placements[0].file_offset, 0x1000U);
  EXPECT_EQ(layout.placements[1].start, kImageCode + 0x202000);
  EXPECT_EQ(layout.placements[1].file_offset, 0x202000U) << "as if one file was mapped as a whole";
  EXPECT_EQ(layout.placements[2].start, kMoved);
}

// With one section for each function, there would be more than ELF can count.
TEST(JitImageLayout, MovesManyFunctionsThatLieFarApartTogether) {
  std::vector<JitImageFunction> functions;
  for (unsigned i = 0; i < 70000; ++i)
    functions.push_back({kImageCode + 0x10000 * i, 0x10, "f" + std::to_string(i), "", {}});
  const auto layout = lay_out_jit_image(functions);
  const auto moved = std::ranges::count_if(layout.addresses, [](auto a) { return a > kMoved; });
  EXPECT_GT(moved, 50000);
  // The code bytes are known only after the layout.
  for (unsigned i = 0; i < functions.size(); i += 2) functions[i].code = code_of(0x10);
  const test::ScratchDirectory scratch;
  const auto path = scratch.write("image.so", encode_jit_image({{}, "", functions}, layout).bytes);
  const auto symbols = test::nm_functions(path);
  for (const unsigned i : {0U, 1U, 8191U, 20000U, 69999U})
    EXPECT_EQ(symbols.at(functions[i].name), layout.addresses[i]) << i;
  EXPECT_LT(std::filesystem::file_size(path), 20'000'000U);
}

// A jitdump may have functions of any size.
TEST(JitImageLayout, GivesLargeFunctionsWithoutCodeBytesNoRoomInTheFile) {
  std::vector<JitImageFunction> functions{function_of("a", kImageCode)};
  for (unsigned i = 1; i < 100; ++i)
    functions.push_back(
        {kImageCode + 0x100 + (std::uint64_t{i} << 28), std::uint64_t{1} << 28, "f", "", {}});
  const auto encoded = encode_jit_image({{}, "", functions}, lay_out_jit_image(functions));
  EXPECT_LT(encoded.bytes.size(), 100'000U);
}

// Interpreted code is 2 bytes for each unit of bytecode that a process claims.
TEST(JitImageLayout, GivesCodeThatRanNowhereNoRoomInTheFile) {
  std::vector<JitImageFunction> functions{function_of("a", kImageCode),
                                          function_of("b", kImageCode)};
  for (unsigned i = 0; i < 1000; ++i) functions.push_back({0, 0x4000, "f", "", {}});
  const auto layout = lay_out_jit_image(functions);
  EXPECT_GT(layout.addresses[1], kMoved);
  EXPECT_GT(layout.addresses[2], layout.addresses[1]);
  EXPECT_EQ(layout.placements.size(), 2U) << "all that was moved has one line";
  EXPECT_LT(encode_jit_image({{}, "", functions}, layout).bytes.size(), 500'000U);
}

TEST(JitImageLayout, NeverOverlapsAnything) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<JitImageFunction> functions;
    for (unsigned i = 0; i < 300; ++i) {
      const std::uint64_t bytes = 1 + random() % (1U << random() % 16);
      functions.push_back({kImageCode + random() % (1 << 20), bytes, "f", {}, {}});
      if (random() % 4 != 0) functions.back().code.assign(bytes, '\x90');
    }
    const std::vector<AddressRange> occupied{{kImageCode + 0x4000, kImageCode + 0x6000},
                                             {kImageCode + 0x6000, kImageCode + 0x6800}};
    std::vector<std::uint64_t> unnamed{kImageCode + 0x9000, kImageCode + 0x20001};
    const auto layout = lay_out_jit_image(functions, occupied, unnamed);
    std::vector<AddressRange> all(occupied);
    for (const std::uint64_t address : unnamed) all.push_back({address, address + 1});
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const AddressRange own{layout.addresses[i], layout.addresses[i] + functions[i].bytes};
      all.push_back(own);
      ASSERT_EQ(std::ranges::count_if(layout.placements,
                                      [&](const ImagePlacement& line) {
                                        return line.start <= own.start && own.end <= line.end;
                                      }),
                1);
    }
    std::ranges::sort(all, {}, &AddressRange::start);
    for (std::size_t i = 1; i < all.size(); ++i) ASSERT_LE(all[i - 1].end, all[i].start) << seed;
    std::vector<AddressRange> lines(occupied);
    for (const ImagePlacement& line : layout.placements) lines.push_back({line.start, line.end});
    std::ranges::sort(lines, {}, &AddressRange::start);
    for (std::size_t i = 1; i < lines.size(); ++i) ASSERT_LE(lines[i - 1].end, lines[i].start);
  }
}

// All functions of a file of node, some of them at the same address.
TEST_F(JitImageTest, HoldsRealCodeNamesAndLines) {
  const std::string dump = test::read_file(std::string(FORMATS_TEST_DATA) + "/jit/node.dump");
  const test::ReadJitDump read = test::read_whole(dump);
  std::vector<std::vector<JitLine>> lines;
  for (const JitDumpEvent& event : read.events) {
    JitImageFunction function{event.address,
                              event.code_bytes,
                              std::string(event.name),
                              std::string(test::part_of(dump, event.code)),
                              {}};
    lines.push_back(
        decode_jit_lines(test::part_of(dump, event.debug_info), read.state, event.code_bytes));
    for (const JitLine& line : lines.back()) {
      image_.files.emplace_back(line.file);
      const auto file = static_cast<std::uint32_t>(image_.files.size() - 1);
      function.lines.push_back({line.code_offset, line.line, line.discriminator, file});
    }
    image_.functions.push_back(std::move(function));
  }
  encode();
  EXPECT_THAT(test::output_of("llvm-dwarfdump --verify " + path_.string()),
              HasSubstr("No errors."));
  std::string questions;
  std::string answers;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const JitLine& line : lines[i]) {
      questions += " " + hexadecimal(layout_.addresses[i] + line.code_offset);
      answers += image_.functions[i].name + "\n" + std::string(line.file) + ":" +
                 std::to_string(line.line) + "\n";
    }
  }
  EXPECT_GT(std::ranges::count(answers, '\n'), 200);
  EXPECT_EQ(test::output_of("addr2line -f -e " + path_.string() + questions), answers);
  const JitImageFunction& last = image_.functions.back();
  const std::uint64_t offset_in_file = encoded_.bytes.find(last.code);
  EXPECT_NE(offset_in_file, std::string::npos);
}

TEST_F(JitImageTest, NamesFunctionsInEveryReader) {
  image_.functions = {function_of("JS:~outer /srv/app.js:1:1", kImageCode),
                      function_of("JS:*inner /srv/app.js:7:3", kImageCode + 0x400),
                      function_of("JS:*other", kImageCode + 0x400),  // later, at the same address
                      function_of("far away", 0x3a0000000000)};
  image_.functions[3].code.clear();
  encode();
  sample(1, 4, 5, {0, 3});
  sample(2, 4, 3, {0, 3});
  const auto path = write_profile();
  const std::map<std::string, Row> expected{{"JS:~outer /srv/app.js:1:1", {0, 8}},
                                            {"JS:*inner /srv/app.js:7:3", {5, 5}},
                                            {"JS:*other", {3, 3}},
                                            {"far away", {0, 8}}};
  EXPECT_EQ(test::go_report(path).rows, expected);
  EXPECT_EQ(test::perl_report(path).rows, expected);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t inside = layout_.addresses[i] + 9;
    EXPECT_THAT(llvm_symbolizer(inside), StartsWith(image_.functions[i].name + "\n"));
    EXPECT_THAT(addr2line(inside), StartsWith(image_.functions[i].name + "\n"));
    EXPECT_EQ(test::nm_functions(path_)[image_.functions[i].name], layout_.addresses[i]);
  }
}

TEST_F(JitImageTest, IsValidForBinutilsAndLlvm) {
  image_.functions = {function_of("a", kImageCode), function_of("b", kImageCode + 0x10000),
                      function_of("c", kImageCode)};
  image_.functions[1].code.clear();
  image_.files = {"x.js"};
  image_.functions[0].lines = {{0, 1, 1, 0}, {5, 2, 1, 0}};
  encode();
  const std::string all = test::output_of("readelf -Wa --debug-dump " + path_.string());
  EXPECT_THAT(all, HasSubstr("ELF Header:"));
  EXPECT_THAT(all, HasSubstr("debug contents of section .debug_line:"));
  EXPECT_THAT(all, Not(ContainsRegex("[Ww]arning|[Ee]rror")));
  EXPECT_THAT(test::output_of("llvm-dwarfdump --verify " + path_.string()),
              HasSubstr("No errors."));
  EXPECT_THAT(test::output_of("readelf -n " + path_.string()), HasSubstr("Build ID: "));
}

class JitImageLinesTest : public JitImageTest {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 1; i <= 20; ++i) text += "line" + std::to_string(i) + "();\n";
    source_ = scratch_.write("app.js", text).string();
    image_.files = {"file://" + source_, "other.js"};
    image_.directory = scratch_.path();
    image_.functions = {function_of("first", kImageCode), function_of("second", kImageCode),
                        function_of("lineless", kImageCode + 0x1000)};
    image_.functions[0].lines = {{4, 3, 7, 0}, {0x20, 5, 1, 0}, {0x80, 2, 1, 1}};
    image_.functions[1].lines = {{0, 12, 0, 0}, {0x10, 11, 0, 0}, {0x12, 20, 0, 0}};
    encode();
  }
  std::string source_;
};

TEST_F(JitImageLinesTest, EverySymbolizerGivesTheLineOfAnInstruction) {
  struct Case {
    std::size_t function;
    std::uint64_t offset;
    std::string line;
  };
  const std::string other = scratch_.path() / "other.js";
  for (const Case& c :
       {Case{0, 0, source_ + ":3"}, Case{0, 0x1f, source_ + ":3"}, Case{0, 0x20, source_ + ":5"},
        Case{0, 0x80, other + ":2"}, Case{0, 0xff, other + ":2"}, Case{1, 0, source_ + ":12"},
        Case{1, 0x11, source_ + ":11"}, Case{1, 0xff, source_ + ":20"}}) {
    const std::uint64_t address = layout_.addresses[c.function] + c.offset;
    EXPECT_THAT(llvm_symbolizer(address), HasSubstr("\n" + c.line + ":")) << c.offset;
    EXPECT_THAT(addr2line(address), HasSubstr("\n" + c.line + "\n")) << c.offset;
  }
}

TEST_F(JitImageLinesTest, BothPprofsListTheSource) {
  sample(0, 0x21, 4, {1});
  sample(2, 4, 2, {1});
  const std::string listing = go("-list '^first$'");
  EXPECT_THAT(listing, ContainsRegex("4ms +4ms[^\n]*line5\\(\\);"));
  EXPECT_THAT(listing, HasSubstr(source_));
  EXPECT_THAT(perl("--list=^first"), ContainsRegex("4 +4 +5: line5\\(\\);"));
  EXPECT_THAT(go("-weblist '^first$' -output /dev/stdout"), HasSubstr("line5();"));
}

TEST_F(JitImageLinesTest, BothPprofsDisassembleTheCodeThatRan) {
  sample(0, 4, 4, {1});
  // Go's pprof matches all of "ADDRESS NAME FILE:LINE".
  for (const std::string& text : {go("-disasm first"), perl("--disasm=^first")}) {
    EXPECT_THAT(text, ContainsRegex("pushq?[ \t]+%rbp"));
    EXPECT_THAT(text, ContainsRegex("movq?[ \t]+%rsp, ?%rbp"));
    EXPECT_THAT(text, ContainsRegex("4[^\n]*nop"));
    EXPECT_THAT(text, ContainsRegex("retq?"));
  }
}

TEST_F(JitImageTest, ShowsAddressesBetweenFunctionsAsUnknown) {
  image_.functions = {function_of("a", kImageCode), function_of("b", kImageCode + 0x1000)};
  encode();
  profile_.add_stack(std::vector<Frame>{{kImageCode + 0x180, PcKind::kExact}}, 2);
  const auto path = write_profile();
  EXPECT_TRUE(test::go_report(path).rows.contains("[jit]"));
  EXPECT_TRUE(test::perl_report(path).rows.contains("[jit]"));
}

TEST_F(JitImageTest, HasABuildIdThatDependsOnAllItsContent) {
  const auto id_of = [](const JitImage& image) {
    return encode_jit_image(image, lay_out_jit_image(image.functions)).build_id;
  };
  image_.functions = {function_of("a", kImageCode)};
  image_.files = {"x.js", "y.js"};
  image_.functions[0].lines = {{0, 1, 0, 0}};
  const std::string id = id_of(image_);
  EXPECT_EQ(id.size(), 20U);
  EXPECT_EQ(id_of(image_), id);
  for (const auto& change : std::vector<void (*)(JitImageFunction&)>{
           [](auto& f) { f.name = "b"; }, [](auto& f) { f.address += 16; },
           [](auto& f) { f.code[9] = '\xcc'; }, [](auto& f) { f.lines[0].line = 2; },
           [](auto& f) { f.lines[0].file = 1; }}) {
    JitImage changed = image_;
    change(changed.functions[0]);
    EXPECT_NE(id_of(changed), id);
  }
}

}  // namespace
}  // namespace profd
