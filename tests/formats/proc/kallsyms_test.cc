#include "formats/proc/kallsyms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/readers.h"

namespace profd {
namespace {

KernelSymbols parsed(std::string text) {
  Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(text));
  EXPECT_TRUE(symbols) << symbols.error().message;
  return symbols ? std::move(*symbols) : KernelSymbols();
}

std::string name_at(const KernelSymbols& symbols, std::uint64_t address) {
  const auto symbol = symbols.find(address);
  return symbol ? std::string(symbol->name) : "";
}

TEST(KernelSymbols, FindsTheFunctionThatHoldsAnAddress) {
  const KernelSymbols symbols = parsed(
      "ffffffff81000000 T startup_64\n"
      "ffffffff81000100 t local_one\n"
      "ffffffff81000200 W weak_one\n"
      "ffffffff81000300 D some_data\n");
  EXPECT_EQ(symbols.size(), 3U);
  EXPECT_EQ(name_at(symbols, 0xffffffff80ffffff), "");
  EXPECT_EQ(name_at(symbols, 0xffffffff81000000), "startup_64");
  EXPECT_EQ(name_at(symbols, 0xffffffff810000ff), "startup_64");
  EXPECT_EQ(name_at(symbols, 0xffffffff81000100), "local_one");
  EXPECT_EQ(name_at(symbols, 0xffffffff810002ff), "weak_one");
  EXPECT_EQ(name_at(symbols, 0xffffffff81000300), "") << "data";
  const auto symbol = symbols.find(0xffffffff81000150);
  ASSERT_TRUE(symbol);
  EXPECT_EQ(symbol->start, 0xffffffff81000100);
  EXPECT_EQ(symbol->end, 0xffffffff81000200);
}

TEST(KernelSymbols, ReadsModulesInAnyOrderAndLeavesTheGapsBetweenThem) {
  const KernelSymbols symbols = parsed(
      "ffffffff81000000 T vfs_read\n"
      "ffffffffc0801000 t fuse_b\t[fuse]\n"
      "ffffffffc0800000 t fuse_a\t[fuse]\n"
      "ffffffffc0000000 t ext4_a\t[ext4]\n");
  EXPECT_EQ(name_at(symbols, 0xffffffffc0800fff), "fuse_a");
  EXPECT_EQ(name_at(symbols, 0xffffffffc0801010), "fuse_b");
  EXPECT_EQ(name_at(symbols, 0xffffffffc000ffff), "ext4_a");
  EXPECT_EQ(name_at(symbols, 0xffffffffc0010000), "") << "beyond what a last function may have";
  EXPECT_EQ(name_at(symbols, 0xffffffff81010000), "");
  EXPECT_EQ(name_at(symbols, 0xffffffffc0811000), "");
}

TEST(KernelSymbols, KeepsTheMostInformativeNameOfAnAddress) {
  struct Case {
    const char* names[3];
    const char* kept;
  };
  for (const Case& c : {Case{{"t local", "T global", "t other"}, "global"},
                        {{"T __sched_text_start", "t yield_task", "T _stext"}, "yield_task"},
                        {{"T __x64_sys_read", "T ksys_read", "D data"}, "ksys_read"},
                        {{"t __pfx_foo", "t ___foo", "d data"}, "___foo"},
                        {{"T __sched_text_start", "t __pfx_foo_start", "D data"}, "foo_start"},
                        {{"t first", "t second", "t third"}, "first"},
                        {{"D data", "B bss", "t code"}, "code"}}) {
    std::string text;
    for (const char* name : c.names) text += std::string("ffffffff81000000 ") + name + "\n";
    EXPECT_EQ(name_at(parsed(text + "ffffffff81000100 T next\n"), 0xffffffff81000010), c.kept);
  }
}

TEST(KernelSymbols, NamesThePaddingBeforeAFunctionAsTheFunction) {
  const KernelSymbols symbols = parsed(
      "ffffffff81000000 T before\n"
      "ffffffff81000100 t __pfx___ia32_sys_one\n"
      "ffffffff81000100 t __pfx___do_sys_one\n"
      "ffffffff81000110 t __ia32_sys_one\n"
      "ffffffff81000110 T __do_sys_one\n"
      "ffffffff81000200 t __cfi_two\n"
      "ffffffff81000210 t two\n"
      "ffffffff81000300 t __pfx_without_function\n"
      "ffffffff81000400 t far\n"
      "ffffffff81000500 t __pfx_\n"
      "ffffffff81000510 t last\n"
      "ffffffffc0000000 t __pfx_three\t[ext4]\n"
      "ffffffffc0000010 t four\t[fuse]\n");
  EXPECT_EQ(name_at(symbols, 0xffffffff810000ff), "before");
  for (const std::uint64_t address : {0xffffffff81000100, 0xffffffff8100010f, 0xffffffff81000110}) {
    const auto symbol = symbols.find(address);
    ASSERT_TRUE(symbol);
    EXPECT_EQ(symbol->name, "__do_sys_one");
    EXPECT_EQ(symbol->start, 0xffffffff81000100) << "one function, whose padding is a part of it";
    EXPECT_EQ(symbol->end, 0xffffffff81000200);
  }
  EXPECT_EQ(name_at(symbols, 0xffffffff8100020f), "two");
  EXPECT_EQ(name_at(symbols, 0xffffffff8100030f), "without_function");
  EXPECT_EQ(name_at(symbols, 0xffffffff81000400), "far");
  EXPECT_EQ(name_at(symbols, 0xffffffff8100050f), "__pfx_") << "no prefix of a name";
  EXPECT_EQ(name_at(symbols, 0xffffffff81000510), "last");
  EXPECT_EQ(name_at(symbols, 0xffffffffc000000f), "three");
  EXPECT_EQ(name_at(symbols, 0xffffffffc0000010), "four") << "of another module";
}

TEST(KernelSymbols, IsEmptyWhereTheKernelHidesItsAddresses) {
  const KernelSymbols symbols = parsed("0000000000000000 T _text\n0000000000000000 t local\n");
  EXPECT_TRUE(symbols.empty());
  EXPECT_FALSE(symbols.find(0));
  EXPECT_TRUE(parsed("").empty());
}

TEST(KernelSymbols, NamesTheNumberOfAMalformedLine) {
  for (const char* line : {"", "x", "ffffffff81000000", "ffffffff81000000 T", "ffffffff81000000 T ",
                           "ffffffff81000000 TT name", "ffffffff81000000  T name",
                           "1ffffffff81000000 T name", "0xffffffff81000000 T name"}) {
    const auto symbols =
        KernelSymbols::parse("ffffffff80000000 T fine\n" + std::string(line) + "\n");
    ASSERT_FALSE(symbols) << line;
    EXPECT_EQ(symbols.error().code, ErrorCode::kMalformed);
    EXPECT_THAT(symbols.error().message, testing::HasSubstr("line 2 ")) << line;
  }
}

TEST(KernelSymbols, LimitsNamesAndModules) {
  const auto parsed_name = [](std::size_t bytes) {
    return KernelSymbols::parse("ffffffff81000000 T " + std::string(bytes, 'n') + "\n");
  };
  EXPECT_TRUE(parsed_name(65'535));
  EXPECT_EQ(parsed_name(65'536).error().code, ErrorCode::kMalformed);

  const auto parsed_modules = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "ffffffffc0000000 t f\t[m" + std::to_string(i) + "]\n";
    return KernelSymbols::parse(std::move(text));
  };
  EXPECT_TRUE(parsed_modules(65'534));
  EXPECT_EQ(parsed_modules(65'535).error().code, ErrorCode::kTooLarge);
}

TEST(KernelSymbols, ReadsTheRunningKernels) {
  const KernelSymbols symbols = parsed(test::read_file("/proc/kallsyms"));
  for (std::uint64_t address = 0xffffffff80000000; address < 0xffffffffff000000;
       address += 0x100000) {
    const auto symbol = symbols.find(address);
    if (!symbol) continue;
    EXPECT_LE(symbol->start, address);
    EXPECT_GT(symbol->end, address);
    EXPECT_FALSE(symbol->name.empty());
  }
}

}  // namespace
}  // namespace profd
