// Names and directories of many megabytes, which many frames have: each one is cut before it is
// copied, so the symbolizer answers for all addresses.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/symbolizer/symbolizer.h"
#include "formats/base/whole_file.h"
#include "tests/collectors/symbolizer/dwarf_writer.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kTextBytes = 16 << 20;
constexpr std::size_t kDepth = 30;
constexpr std::size_t kRequested = 1000;

std::string long_text() { return std::string(kTextBytes, 'x'); }
std::string cut_long_text() { return std::string(kMaxCodeNameBytes - 3, 'x') + "..."; }

// A function with kDepth others that are inlined in each other, all of this origin.
std::string function_with_inlined(std::uint32_t origin) {
  Bytes entries;
  add_range(entries.add(Entry::kFunction).string("outer"));
  for (std::size_t i = 0; i < kDepth; ++i) add_range(entries.add(Entry::kInlined).u32(origin));
  return entries.raw(std::string(kDepth + 1, '\0')).text();
}

// Of each byte, line 1 of a file of its own.
std::string lines_of_many_files() {
  Bytes program;
  program.raw(start_of_program());
  for (std::size_t i = 1; i <= kRequested; ++i) {
    const auto low = static_cast<std::uint8_t>(0x80 | (i & 0x7f));
    program.u8(4).u8(low).u8(static_cast<std::uint8_t>(i >> 7));  // the file's number
    program.u8(1).u8(2).u8(1);  // adds a row, and one to the address
  }
  program.raw(end_of_program());
  return lines_of_program(program.text(), 14, kRequested);
}

std::string dwarf_of(std::string_view unit, std::string_view lines, std::string_view strings) {
  return elf_with({{.name = ".debug_abbrev", .bytes = abbreviations()},
                   {.name = ".debug_info", .bytes = std::string(unit)},
                   {.name = ".debug_line", .bytes = std::string(lines)},
                   {.name = ".debug_str", .bytes = std::string(strings) + '\0'}});
}

class LongTextsTest : public testing::Test {
 protected:
  std::vector<DwarfAddress> answers_for(std::string_view bytes,
                                        std::chrono::nanoseconds cpu_time = 1500ms) {
    const UniqueFd file(::memfd_create("profd_long_texts", MFD_CLOEXEC));
    EXPECT_TRUE(write_all(file.get(), bytes));
    std::vector<std::uint64_t> addresses(kRequested);
    std::iota(addresses.begin(), addresses.end(), kCodeStart);
    const auto answers = symbolizer.find_frames({.file = file.get()}, addresses, cpu_time);
    EXPECT_TRUE(answers) << answers.error().message;
    return answers ? *answers : std::vector<DwarfAddress>();
  }

  Symbolizer symbolizer;
};

TEST_F(LongTextsTest, ANameIsCut) {
  for (const Entry origin : {Entry::kNamed, Entry::kLinkageNamed}) {
    const std::string entries = Bytes().add(origin).u32(0).text();
    const auto answers = answers_for(dwarf_of(unit_of(entries + function_with_inlined(kFirstEntry)),
                                              lines_of_many_files(), long_text()));
    ASSERT_EQ(answers.size(), kRequested);
    std::size_t answered = 0;
    for (const DwarfAddress& answer : answers) {
      if (answer.loss != DwarfLoss::kNone) continue;  // no room, or no time on a slow machine
      ++answered;
      ASSERT_EQ(answer.names.frames.size(), kDepth + 1);
      EXPECT_EQ(answer.names.frames.back().name, "outer");
      EXPECT_EQ(answer.names.frames.front().name, cut_long_text());
      EXPECT_EQ(answer.names.frames.front().system_name, cut_long_text());
    }
    // The answer has room for 16 MiB: without the cut it has none for a single address.
    EXPECT_GT(answered, kRequested / 20);
    EXPECT_EQ(symbolizer.failures(), 0U);
  }
}

TEST_F(LongTextsTest, TheDirectoryOfAUnitIsCut) {
  Bytes function;
  add_range(function.add(Entry::kFunction).string("outer")).u8(0);
  const auto answers = answers_for(dwarf_of(unit_of(function.text(), Entry::kUnitInDirectory),
                                            lines_of_many_files(), long_text()));
  ASSERT_EQ(answers.size(), kRequested);
  for (const DwarfAddress& answer : answers) {
    ASSERT_EQ(answer.loss, DwarfLoss::kNone) << text_of(answer.loss);
    ASSERT_EQ(answer.names.frames.size(), 1U);
    EXPECT_EQ(answer.names.frames.front().file, cut_long_text());
    EXPECT_EQ(answer.names.frames.front().line, 1U);
  }
  EXPECT_EQ(symbolizer.failures(), 0U);
}

// libdw reads such a text when it searches for an attribute that may be behind it: the time ends
// the request, and what was read before has its names.
TEST_F(LongTextsTest, ATextInAnEntryEndsWithTheTime) {
  Bytes origin;
  origin.add(Entry::kFunction).string(long_text()).u64(0).u64(0).u8(0);
  const auto answers =
      answers_for(dwarf_of(unit_of(origin.text() + function_with_inlined(kFirstEntry)),
                           lines_of_many_files(), {}),
                  500ms);
  ASSERT_EQ(answers.size(), kRequested);
  EXPECT_EQ(answers.back().loss, DwarfLoss::kCpuTime) << text_of(answers.back().loss);
  EXPECT_EQ(symbolizer.failures(), 0U);
}

}  // namespace
}  // namespace profd::test
