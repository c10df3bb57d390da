#include "formats/jit/perf_map.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/jit/files.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::data_file;
using testing::ElementsAre;
using testing::IsEmpty;

PerfMapLines read_at(std::string_view file, PerfMapState& state) {
  return read_perf_map(file.substr(std::min<std::size_t>(state.read_from(), file.size())), state);
}

PerfMapLines read_map(std::string_view file) {
  PerfMapState state;
  return read_perf_map(file, state);
}

TEST(PerfMap, ReadsTheFormsOfLines) {
  struct Case {
    std::string line;
    PerfMapLine expected;
  };
  for (const Case& c : {
           Case{"7ff84992e000 b py::_find_and_load:<frozen importlib._bootstrap>",
                {0x7ff84992e000, 0xb, "py::_find_and_load:<frozen importlib._bootstrap>"}},
           Case{"0x00007f5c78ec71c0 0x0000000000000270 int T.fib(int, long)",
                {0x7f5c78ec71c0, 0x270, "int T.fib(int, long)"}},
           Case{"0x7fc6ca83b000 68 $global::apply_fun_shared",
                {0x7fc6ca83b000, 0x68, "$global::apply_fun_shared"}},
           Case{"0X10 0XFF x", {0x10, 0xff, "x"}},
           Case{"7fffffffffffffff 1 last", {0x7fffffffffffffff, 1, "last"}},
           Case{"1000  20\tname", {0x1000, 0x20, "name"}},
           Case{"1000 20 \xff\xfe\x1b[31m m\xc3\xa9thode ",
                {0x1000, 0x20, "\xff\xfe\x1b[31m m\xc3\xa9thode "}},
           Case{std::string("1000 20 cut\0here", 16), {0x1000, 0x20, "cut"}},
       }) {
    const std::string file = c.line + "\n";
    EXPECT_THAT(read_map(file).lines, ElementsAre(c.expected)) << c.line;
  }
}

TEST(PerfMap, CountsBadLines) {
  for (const char* line :
       {"", " ", "1000", "1000 20", "1000 20 ", "x 20 name", "1000 x name", "0x 20 name",
        "-1000 20 name", "1000 0 name", "1000 10000001 name", "ffffffff81000000 20 name",
        "8000000000000000 20 name", "10000000000000000 20 name", "# comment"}) {
    const std::string file = std::string(line) + "\n2000 10 next\n";
    const PerfMapLines read = read_map(file);
    EXPECT_THAT(read.lines, ElementsAre(PerfMapLine{0x2000, 0x10, "next"})) << line;
    EXPECT_EQ(read.bad_lines, 1U) << line;
  }
}

// Compares with awk.
TEST(PerfMap, ReadsEachLineOfRealFiles) {
  for (const char* name : {"java.map", "mono.map", "php.map"}) {
    const std::string file = data_file(name);
    std::ostringstream text;
    for (const PerfMapLine& line : read_map(file).lines)
      text << std::hex << line.address << ' ' << line.bytes << ' ' << line.name << '\n';
    EXPECT_EQ(text.str(),
              test::output_of("sed -E 's/^(0x)?0*([0-9a-f]+) (0x)?0*([0-9a-f]+) /\\2 \\4 /' " +
                              std::string(FORMATS_TEST_DATA) + "/jit/" + name))
        << name;
  }
}

TEST(PerfMap, ReadsAGrowingFileEachLineOnce) {
  const std::string file = data_file("php.map");
  const PerfMapLines whole = read_map(file);
  for (const std::size_t step : {1U, 7U, 64U, 65U, 1000U}) {
    PerfMapState state;
    std::vector<PerfMapLine> lines;
    for (std::size_t size = 0; size < file.size();) {
      size = std::min(size + step, file.size());
      const PerfMapLines read = read_at(std::string_view(file).substr(0, size), state);
      ASSERT_FALSE(read.rewritten) << size;
      lines.insert(lines.end(), read.lines.begin(), read.lines.end());
    }
    EXPECT_EQ(lines, whole.lines) << step;
  }
}

TEST(PerfMap, DistinguishesARewrittenFileFromAGrownOne) {
  const std::string file = "1000 10 first\n2000 10 second\n";
  for (const std::string& other :
       {std::string("1000 10 other\n2000 10 second\n3000 10 third\n"), std::string("1000 10 f\n"),
        std::string(), "3000 10 zero\n" + file}) {
    PerfMapState state;
    EXPECT_EQ(read_at(file, state).lines.size(), 2U);
    const PerfMapLines changed = read_at(other, state);
    EXPECT_TRUE(changed.rewritten) << other;
    EXPECT_THAT(changed.lines, IsEmpty());
    const auto lines = std::ranges::count(other, '\n');
    EXPECT_EQ(read_at(other, state).lines.size(), static_cast<std::size_t>(lines));
  }
}

TEST(PerfMap, CutsLongNamesAndSkipsEndlessLines) {
  const std::string longest(kMaxPerfMapNameBytes, 'n');
  const std::string file = "1000 10 " + longest + "more\n";
  EXPECT_THAT(read_map(file).lines, ElementsAre(PerfMapLine{0x1000, 0x10, longest}));

  const std::string endless(200'000, 'x');
  const std::string tail = "\n2000 10 after\n";
  for (const std::size_t read_bytes :
       {kPerfMapOverlapBytes + kMaxPerfMapLineBytes + 1, std::size_t{1} << 20}) {
    PerfMapState state;
    std::vector<PerfMapLine> lines;
    std::uint64_t long_lines = 0;
    const std::string all = endless + tail;
    while (state.offset < all.size()) {
      const std::uint64_t before = state.offset;
      const PerfMapLines read =
          read_perf_map(std::string_view(all).substr(state.read_from(), read_bytes), state);
      ASSERT_GT(state.offset, before);
      long_lines += read.long_lines;
      lines.insert(lines.end(), read.lines.begin(), read.lines.end());
    }
    EXPECT_EQ(long_lines, 1U);
    EXPECT_THAT(lines, ElementsAre(PerfMapLine{0x2000, 0x10, "after"}));
  }
}

TEST(PerfMap, AcceptsAnyState) {
  for (const std::uint64_t offset : {std::uint64_t{63}, std::uint64_t{64}, ~std::uint64_t{0}}) {
    PerfMapState state{.offset = offset, .overlap_hash = 1, .in_long_line = true};
    EXPECT_TRUE(read_perf_map("1000 10 first\n", state).rewritten);
    EXPECT_EQ(state.offset, 0U);
  }
}

}  // namespace
}  // namespace profd
