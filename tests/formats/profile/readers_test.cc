// The output of both pprofs, and of the tools that they run, for profiles and images of profd.

#include "tests/formats/readers.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "formats/elf/image.h"
#include "formats/profile/gperftools_writer.h"

namespace profd {
namespace {

using enum PcKind;
using test::Report;
using test::Row;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kBase = 0x600000000000;

struct Named {
  const char* reader;
  Report report;
};

class ReadersTest : public testing::Test {
 protected:
  // The report of each pprof for the profile with `image` beside it.
  std::vector<Named> reports(const Profile& profile) {
    const auto path = scratch_.write("test.prof", encode_gperftools(profile));
    return {{"Go", test::go_report(path)}, {"Perl", test::perl_report(path)}};
  }

  // Functions f0, f1, ... of 0x100 bytes each, one page apart from 0x1000 above `base` on.
  Profile profile_of(const AbsoluteImage& image) {
    const ImagePlacement place = placement_of(image);
    Profile profile;
    profile.period = 1000;
    profile.build_dir = scratch_.path();
    profile.mappings = {{place.start, place.end, place.file_offset, "$build/image.so"}};
    scratch_.write("image.so", encode_absolute_image(image));
    return profile;
  }

  test::ScratchDirectory scratch_;
};

std::uint64_t start_of(unsigned function) { return kBase + 0x1000 * (function + 1); }

AbsoluteImage image_of(unsigned functions) {
  AbsoluteImage image;
  for (unsigned i = 0; i < functions; ++i) {
    image.functions.push_back({start_of(i), 0x100, "f" + std::to_string(i)});
  }
  return image;
}

Frame inside(unsigned function, PcKind kind = PcKind::kReturnAddress) {
  return {start_of(function) + 0x10, kind};
}

TEST_F(ReadersTest, NameEveryFrameOfOneStack) {
  Profile profile = profile_of(image_of(4));
  profile.add_stack(std::vector<Frame>{inside(0, kExact), inside(1), inside(2), inside(3)}, 7);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.total, 7U) << reader;
    EXPECT_EQ(report.rows, (std::map<std::string, Row>{
                               {"f0", {7, 7}}, {"f1", {0, 7}}, {"f2", {0, 7}}, {"f3", {0, 7}}}))
        << reader;
  }
}

TEST_F(ReadersTest, KeepTheCallerThatAlmostEveryRecordHas) {
  for (const unsigned records : {1U, 2U, 31U, 32U, 33U, 64U, 100U, 320U}) {
    for (const unsigned different : {0U, 1U, 2U}) {
      Profile profile = profile_of(image_of(4));
      for (unsigned i = 0; i < records; ++i) {
        const Frame leaf{start_of(0) + 1 + i % 0x80, kExact};
        const Frame caller = i < different ? inside(3) : inside(1);
        profile.add_stack(std::vector<Frame>{leaf, caller, {start_of(2) + 1 + i % 0x80}}, 1);
      }
      const unsigned same = records - std::min(records, different);
      for (const auto& [reader, report] : reports(profile)) {
        ASSERT_EQ(report.total, records) << reader;
        const auto row = report.rows.find("f1");
        ASSERT_EQ(row != report.rows.end(), same > 0) << reader << records << " " << different;
        if (same > 0) {
          EXPECT_EQ(row->second, (Row{0, same})) << reader << records;
        }
        EXPECT_EQ(report.rows.at("f2"), (Row{0, records})) << reader;
      }
    }
  }
}

TEST_F(ReadersTest, ChargeAnExactCallerThatIsAtItsFunctionsFirstInstruction) {
  Profile profile = profile_of(image_of(3));
  profile.add_stack(std::vector<Frame>{inside(0, kExact), {start_of(1), kExact}, inside(2)}, 3);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.rows.at("f1"), (Row{0, 3})) << reader;
  }
}

// The sums do not show a lost level, so the caller that could be lost is another function.
TEST_F(ReadersTest, KeepTheFirstCallerThatIsAtTheLeafsAddress) {
  Profile profile = profile_of(image_of(2));
  const Frame again{start_of(0) + 0x20};
  profile.add_stack(std::vector<Frame>{{again.pc, kExact}, again, inside(1)}, 3);
  const auto path = scratch_.write("test.prof", encode_gperftools(profile));
  const std::string traces =
      test::output_of(std::string(GO_PPROF_BINARY) + " -symbolize=local -traces " + path.string());
  std::size_t levels = 0;
  for (std::size_t at = traces.find("f0"); at != traces.npos; at = traces.find("f0", at + 1))
    levels++;
  EXPECT_EQ(levels, 2U) << traces;
  EXPECT_EQ(test::perl_report(path).rows.at("f0"), (Row{3, 3}));
}

TEST_F(ReadersTest, ReadTheRecordsAfterALeafOfZero) {
  Profile profile = profile_of(image_of(2));
  profile.add_stack(std::vector<Frame>{{0, kExact}, inside(1)}, 2);
  profile.add_stack(std::vector<Frame>{inside(0, kExact), {0}, inside(1)}, 3);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.total, 5U) << reader;
    EXPECT_EQ(report.rows.at("f0"), (Row{3, 3})) << reader;
    EXPECT_EQ(report.rows.at("f1"), (Row{0, 5})) << reader;
  }
}

TEST_F(ReadersTest, NameFoldedKernelFunctionsAboveUserOnes) {
  AbsoluteImage kernel;
  kernel.functions = {{fold_kernel_address(0xffffffff81000100), 0x80, "vfs_read"},
                      {fold_kernel_address(0xffffffff81003000), 0, "do_syscall_64"}};
  Profile profile = profile_of(kernel);
  const std::vector<Frame> in_kernel{{0xffffffff81000110, kExact}, {0xffffffff81003050}};
  profile.add_stack(in_kernel, 2);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.rows,
              (std::map<std::string, Row>{{"vfs_read", {2, 2}}, {"do_syscall_64", {0, 2}}}))
        << reader;
  }
}

TEST_F(ReadersTest, ShowAnAddressBetweenFunctionsAsUnknown) {
  Profile profile = profile_of(image_of(2));
  profile.add_stack(std::vector<Frame>{{start_of(0) + 0x100, kExact}, inside(1)}, 2);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.rows.at("[unknown]"), (Row{2, 2})) << reader;
    EXPECT_FALSE(report.rows.contains("f0")) << reader;
  }
}

TEST_F(ReadersTest, ShowNamesAsTheyStandOrDemangled) {
  struct Case {
    const char* symbol;
    const char* shown;
  };
  for (const Case& c : {Case{"[kernel]", "[kernel]"},
                        {"_ZN3foo3barEi", "foo::bar"},
                        {"func.constprop.0", "func.constprop.0"},
                        {"__x64_sys_read", "__x64_sys_read"},
                        {"name with blanks", "name with blanks"}}) {
    AbsoluteImage image = image_of(1);
    image.functions[0].name = c.symbol;
    Profile profile = profile_of(image);
    profile.add_stack(std::vector<Frame>{inside(0, kExact)}, 1);
    for (const auto& [reader, report] : reports(profile)) {
      EXPECT_TRUE(report.rows.contains(c.shown))
          << reader << " " << c.symbol << ": " << report.rows.begin()->first;
    }
  }
}

TEST_F(ReadersTest, NameFunctionsByAddr2lineAndByNmToo) {
  const AbsoluteImage image = image_of(3);
  const auto path = scratch_.write("image.so", encode_absolute_image(image));
  for (unsigned i = 0; i < 3; ++i) {
    char address[32];
    std::snprintf(address, sizeof address, "0x%llx",
                  static_cast<unsigned long long>(start_of(i) + 0x20));
    const std::string name = "f" + std::to_string(i);
    EXPECT_THAT(test::output_of("addr2line -f -e " + path.string() + " " + address),
                testing::StartsWith(name + "\n"));
    EXPECT_THAT(test::output_of("llvm-symbolizer --obj=" + path.string() + " " + address),
                testing::StartsWith(name + "\n"));
    EXPECT_EQ(test::nm_functions(path)[name], start_of(i));
  }
  EXPECT_THAT(test::output_of("readelf -Wa " + path.string() + " 2>&1"),
              AllOf(HasSubstr("ELF Header:"), Not(testing::ContainsRegex("[Ww]arning|[Ee]rror"))));
}

// A stand-in for a program, mapped as the kernel maps the original: each of its executable
// segments.
class FileImageTest : public ReadersTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    functions_ =
        test::nm_functions(GetParam(), std::string(GetParam()) == STACK_STRIPPED ? "-D" : "");
    const UniqueFd fd(::open(GetParam(), O_RDONLY | O_CLOEXEC));
    const auto summary = read_elf_summary(fd.get());
    ASSERT_TRUE(summary);
    base_ = summary->type == ET_DYN ? 0x555555554000 : 0;
    std::vector<std::uint64_t> hits;
    for (const char* name : {"hot_leaf", "far_away", "far_too", "middle"})
      hits.push_back(functions_.at(name) + 1);
    SymbolBudget budget;
    const auto symbols = find_elf_symbols(fd.get(), hits, budget);
    ASSERT_TRUE(symbols);
    image_ = {*summary, {}, *symbols};
  }

  Profile mapped() {
    Profile profile;
    profile.period = 1000;
    const auto path = scratch_.write("stand_in.so", encode_file_image(image_));
    for (const ElfSegment& s : image_.original.segments) {
      if ((s.flags & PF_X) == 0) continue;
      const std::uint64_t start = s.vaddr & ~std::uint64_t{4095};
      const std::uint64_t end = (s.vaddr + s.memory_bytes + 4095) & ~std::uint64_t{4095};
      profile.mappings.push_back(
          {base_ + start, base_ + end, s.offset & ~std::uint64_t{4095}, path});
    }
    return profile;
  }

  [[nodiscard]] std::uint64_t address(const char* name) const {
    return base_ + functions_.at(name);
  }

  std::map<std::string, std::uint64_t> functions_;
  std::uint64_t base_ = 0;
  FileImage image_;
};

TEST_P(FileImageTest, NamesTheHitFunctionsAtTheOriginalsMapping) {
  Profile profile = mapped();
  profile.add_stack(std::vector<Frame>{{address("hot_leaf") + 2, kExact}, {address("middle") + 4}},
                    5);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.rows, (std::map<std::string, Row>{{"hot_leaf", {5, 5}}, {"middle", {0, 5}}}))
        << reader;
  }
}

// Perl's pprof resolves one segment of a file, so its output is checked for files with one.
TEST_P(FileImageTest, NamesTheHitFunctionsOfEverySegment) {
  Profile profile = mapped();
  profile.add_stack(
      std::vector<Frame>{
          {address("hot_leaf") + 2, kExact}, {address("far_away") + 4}, {address("middle") + 4}},
      5);
  for (const auto& [reader, report] : reports(profile)) {
    if (std::string(reader) == "Perl" && profile.mappings.size() > 1) continue;
    EXPECT_EQ(report.rows, (std::map<std::string, Row>{
                               {"hot_leaf", {5, 5}}, {"far_away", {0, 5}}, {"middle", {0, 5}}}))
        << reader;
  }
}

TEST_P(FileImageTest, NamesTheHitFunctionsOfALaterSegmentInBothReaders) {
  std::erase_if(image_.functions, [](const ElfSymbol& f) { return !f.name.starts_with("far_"); });
  Profile profile = mapped();
  profile.add_stack(std::vector<Frame>{{address("far_away") + 2, kExact}, {address("far_too") + 4}},
                    5);
  for (const auto& [reader, report] : reports(profile)) {
    EXPECT_EQ(report.rows, (std::map<std::string, Row>{{"far_away", {5, 5}}, {"far_too", {0, 5}}}))
        << reader;
  }
}

TEST_P(FileImageTest, ContainsANameOnceForAllItsFunctions) {
  const std::uint64_t first = image_.functions[0].address;
  image_.functions.clear();
  for (std::uint64_t i = 0; i < 8; ++i) {
    image_.functions.push_back({first + i, 1, std::string(4096, 'A')});
  }
  EXPECT_LT(encode_file_image(image_).size(), 2 * 4096U);
}

TEST_P(FileImageTest, IsSmallAndKeepsTypeSegmentsAndBuildId) {
  const std::string bytes = encode_file_image(image_);
  EXPECT_LT(bytes.size(), 4096U);
  const UniqueFd fd(::open(scratch_.write("x.so", bytes).c_str(), O_RDONLY | O_CLOEXEC));
  const auto summary = read_elf_summary(fd.get());
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->type, image_.original.type);
  EXPECT_EQ(summary->machine, image_.original.machine);
  EXPECT_EQ(summary->entry, image_.original.entry);
  EXPECT_EQ(summary->build_id, image_.original.build_id);
  ASSERT_EQ(summary->segments.size(), image_.original.segments.size());
  for (std::size_t i = 0; i < summary->segments.size(); ++i) {
    EXPECT_EQ(summary->segments[i].offset, image_.original.segments[i].offset);
    EXPECT_EQ(summary->segments[i].vaddr, image_.original.segments[i].vaddr);
    EXPECT_EQ(summary->segments[i].file_bytes, image_.original.segments[i].file_bytes);
    EXPECT_EQ(summary->segments[i].memory_bytes, image_.original.segments[i].memory_bytes);
    EXPECT_EQ(summary->segments[i].flags, image_.original.segments[i].flags);
    EXPECT_EQ(summary->segments[i].align, image_.original.segments[i].align);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, FileImageTest,
                         testing::Values(STACK_PIE, STACK_NO_PIE, STACK_STRIPPED));

TEST(AbsoluteImage, StartsAPageBeforeItsFirstFunctionAndEndsWithItsLast) {
  AbsoluteImage image;
  image.functions = {{0x7f0000001234, 0x10, "a"}, {0x7f0000005000, 0x20, "b"}};
  const ImagePlacement place = placement_of(image);
  EXPECT_EQ(place.start, 0x7f0000000000U);
  EXPECT_EQ(place.end, 0x7f0000005020U);
  EXPECT_EQ(place.file_offset, 0x1000U);
  image.functions.back().bytes = 0;
  EXPECT_EQ(placement_of(image).end, 0x7f0000006000U) << "to the page's end without a size";
}

TEST(AbsoluteImage, CarriesABuildId) {
  const test::ScratchDirectory scratch;
  AbsoluteImage image = image_of(1);
  image.build_id = "\x01\x02\xff";
  const auto path = scratch.write("image.so", encode_absolute_image(image));
  EXPECT_THAT(test::output_of("readelf -n " + path.string()), HasSubstr("Build ID: 0102ff"));
}

}  // namespace
}  // namespace profd
