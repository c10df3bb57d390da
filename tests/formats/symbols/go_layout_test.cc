// Tables of each layout, made by hand, and hostile ones.

#include <unistd.h>

#include <chrono>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "formats/symbols/find_code_names.h"
#include "formats/symbols/go_functions.h"
#include "tests/formats/symbols/built_code.h"
#include "tests/formats/symbols/go_table_maker.h"

namespace profd {
namespace {

using go::Layout;
using test::GoTableMaker;

class GoLayoutTest : public testing::Test {
 protected:
  AddressNames names_at(const GoTableMaker& maker, std::uint64_t offset) {
    return test::name_of(scratch_.write("program", maker.make()), GoTableMaker::kEntry + offset);
  }
  // "function:line" of each frame.
  std::string frames_at(const GoTableMaker& maker, std::uint64_t offset) {
    std::string text;
    for (const CodeFrame& frame : names_at(maker, offset).frames) {
      text += frame.name + ":" + std::to_string(frame.line) + " ";
    }
    return text;
  }
  test::ScratchDirectory scratch_;
};

TEST_F(GoLayoutTest, EachLayoutGivesTheSameFrames) {
  for (const Layout layout : {Layout::kGo116, Layout::kGo118, Layout::kGo120}) {
    SCOPED_TRACE(static_cast<int>(layout));
    const GoTableMaker maker{.layout = layout};
    EXPECT_EQ(frames_at(maker, 0), "main.outer:10 ");
    EXPECT_EQ(frames_at(maker, 0x0f), "main.outer:10 ");
    EXPECT_EQ(frames_at(maker, 0x10), "main.middle:20 main.outer:10 ");
    EXPECT_EQ(frames_at(maker, 0x2f), "main.inner:30 main.middle:20 main.outer:10 ");
    EXPECT_EQ(frames_at(maker, 0x30), "main.outer:40 ");
    EXPECT_EQ(frames_at(maker, 0x3f), "main.outer:40 ");
    EXPECT_EQ(frames_at(maker, 0x40), "");
    EXPECT_EQ(names_at(maker, 0x40).source, NameSource::kGap);
    EXPECT_EQ(names_at(maker, ~std::uint64_t{0}).source, NameSource::kGap) << "below the text";
    const auto names = names_at(maker, 0x20);
    EXPECT_EQ(names.source, NameSource::kGo);
    ASSERT_EQ(names.frames.size(), 3U);
    for (const CodeFrame& frame : names.frames) EXPECT_EQ(frame.file, "/src/a.go");
    const bool has_start_lines = layout == Layout::kGo120;
    EXPECT_EQ(names.frames[0].start_line, has_start_lines ? 5U : 0U);
    EXPECT_EQ(names.frames[1].start_line, has_start_lines ? 7U : 0U);
    EXPECT_EQ(names.frames[2].start_line, has_start_lines ? 3U : 0U);
  }
}

// The line at the address is the inlined function's, so the outer one has none.
TEST_F(GoLayoutTest, WithoutTheInlineTreeALineIsNotGivenToTheWrongFunction) {
  const GoTableMaker maker{.layout = Layout::kGo118, .has_module = false};
  EXPECT_EQ(frames_at(maker, 0), "main.outer:10 ");
  EXPECT_EQ(frames_at(maker, 0x20), "main.outer:0 ");
}

TEST_F(GoLayoutTest, ACycleOfInlinedCallsIsCut) {
  for (const Layout layout : {Layout::kGo116, Layout::kGo118, Layout::kGo120}) {
    const auto names = names_at({.layout = layout, .inner_call = 0x28}, 0x20);
    EXPECT_EQ(names.frames.size(), kMaxFramesOfAddress);
    EXPECT_EQ(names.frames.front().name, "main.inner");
    EXPECT_EQ(names.frames.back().name, "main.outer");
  }
}

TEST_F(GoLayoutTest, WildNumbersFindNothing) {
  EXPECT_EQ(frames_at({.inner_call = 0xf0000000}, 0x20), "main.inner:30 main.outer:0 ");
  EXPECT_EQ(frames_at({.function_count = 0}, 0x20), "");
  EXPECT_EQ(frames_at({.function_count = 1'000'000}, 0x20), "");
  EXPECT_EQ(frames_at({.function_count = ~std::uint64_t{0}}, 0x20), "");
  EXPECT_EQ(frames_at({.function_offset = 0x7fffffff}, 0x20), "");
  EXPECT_EQ(frames_at({.layout = Layout::kGo116, .function_offset = 0xfffffff0}, 0x20), "");
}

constexpr auto kNoHang = std::chrono::seconds(60);

std::vector<std::uint64_t> addresses_of_inner(std::size_t count) {
  std::vector<std::uint64_t> addresses(count);
  std::iota(addresses.begin(), addresses.end(), GoTableMaker::kEntry + 0x20);
  return addresses;
}

TEST_F(GoLayoutTest, AllAddressesOfACycleCostABoundedTimeAndMemory) {
  const GoTableMaker maker{.inner_call = 0x28, .inner_bytes = kMaxNamedAddresses};
  const std::string path = scratch_.write("program", maker.make());
  const auto started = std::chrono::steady_clock::now();
  const auto names = test::names_of(path, addresses_of_inner(kMaxNamedAddresses));
  EXPECT_LT(std::chrono::steady_clock::now() - started, kNoHang);
  EXPECT_EQ(names.front().source, NameSource::kGo);
  EXPECT_EQ(names.back().source, NameSource::kOverBudget);
}

// Each address costs 1 MB of steps through a table.
TEST_F(GoLayoutTest, AllAddressesOfALongTableCostABoundedTime) {
  const GoTableMaker maker{.inner_bytes = kMaxNamedAddresses, .padded_pairs = 100'000};
  const UniqueFd file = test::open_file(scratch_.write("program", maker.make()));
  ASSERT_EQ(::fchown(file.get(), 65534, 65534), 0);
  SymbolBudget budget{.table_bytes = std::size_t{64} << 20, .time = std::chrono::milliseconds(200)};
  const auto started = std::chrono::steady_clock::now();
  const auto names =
      find_code_names(file.get(), -1, addresses_of_inner(kMaxNamedAddresses), budget);
  EXPECT_LT(std::chrono::steady_clock::now() - started, kNoHang);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->back().source, NameSource::kOverBudget);
}

// The blocks of the table are read before the time is over.
TEST_F(GoLayoutTest, TheTimeAlsoLimitsTheStepsThroughWhatHasBeenRead) {
  const GoTableMaker maker{.padded_pairs = 10'000};
  const UniqueFd file = test::open_file(scratch_.write("program", maker.make()));
  ASSERT_EQ(::fchown(file.get(), 65534, 65534), 0);
  const auto elf = CodeFile::open(file.get());
  ASSERT_TRUE(elf);
  SymbolBudget budget{.table_bytes = std::size_t{64} << 20, .time = std::chrono::hours(1)};
  ReadLimits limits(file.get(), budget, ReadLimits::Clock::now());
  auto functions = GoFunctions::open({*elf, limits});
  ASSERT_TRUE(functions);
  EXPECT_EQ(functions->frames_at(GoTableMaker::kEntry + 0x20).size(), 3U);
  limits = ReadLimits(file.get(), budget, ReadLimits::Clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(functions->frames_at(GoTableMaker::kEntry + 0x21).empty());
  EXPECT_TRUE(functions->is_exhausted());
  EXPECT_TRUE(limits.are_spent());
}

}  // namespace
}  // namespace profd
