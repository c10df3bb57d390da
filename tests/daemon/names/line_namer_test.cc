// Inlined functions and lines of a program of C, as addr2line knows them.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "daemon/names/code_naming.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::Contains;

// "FUNCTION FILE:LINE" of each frame, the innermost inlined function first.
using Shown = std::vector<std::string>;

constexpr std::uint32_t kRootUser = 0;
constexpr std::uint32_t kUser = 12'345;

class LineNamerTest : public testing::Test {
 protected:
  // All hits are of samples of this user. No sample hits two bytes.
  static void set_payer(HitFile& hit, std::uint32_t payer) {
    UserHits hits{.samples_by_offset = hit.samples_by_offset};
    for (const auto& [offset, samples] : hit.samples_by_offset) hits.samples += samples;
    hit.hits_by_payer = {{payer, hits}};
  }

  // Hits of root on every fourth byte of the function `outer`; the first has most samples.
  HitFile hit_of(const std::string& path) {
    HitFile hit{.file = test::open_mapped(path), .samples_by_offset = {}};
    const ElfSummary elf = read_elf_summary(hit.file->fd.get()).value();
    const std::uint64_t start = test::nm_functions(INLINED_PROGRAM).at("outer");
    for (std::uint64_t i = 0; i < 10; ++i) {
      addresses_.push_back(start + 4 * i);
      for (const ElfSegment& segment : elf.segments) {
        const std::uint64_t inside = addresses_.back() - segment.vaddr;
        if (addresses_.back() < segment.vaddr || inside >= segment.memory_bytes) continue;
        hit.samples_by_offset[segment.offset + inside] = 100 - i;
      }
    }
    set_payer(hit, kRootUser);
    return hit;
  }

  static Shown shown(const NameTable& names, std::uint64_t address) {
    Shown frames;
    for (const NameTable::Line& line : names.lines(*names.find(address))) {
      const CodeFrame frame = names.frame(line);
      frames.push_back(fmt::format("{} {}:{}", frame.name, frame.file, frame.line));
    }
    return frames;
  }

  static Shown addr2line(std::uint64_t address) {
    std::istringstream in(
        test::output_of(fmt::format("addr2line -i -f -e {} {:#x}", INLINED_PROGRAM, address)));
    Shown frames;
    for (std::string name, place; std::getline(in, name) && std::getline(in, place);) {
      frames.push_back(name + " " + place.substr(0, place.find(" (")));
    }
    return frames;
  }

  CodeNaming naming_{Parser::start().value()};
  SymbolBudgets budgets_;
  std::vector<std::uint64_t> addresses_;
};

TEST_F(LineNamerTest, AddressesHaveTheirInlinedFunctionsAndLines) {
  const HitFile hit = hit_of(INLINED_PROGRAM);
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 5s);
  const HitFile* const file = &hit;
  naming_.files().add_lines({&file, 1}, budget);
  std::vector<std::size_t> depths;
  for (const std::uint64_t address : addresses_) {
    EXPECT_EQ(shown(*named.names, address), addr2line(address)) << std::hex << address;
    depths.push_back(named.names->lines(*named.names->find(address)).size());
    EXPECT_FALSE(named.names->find(address)->may_have_lines);
  }
  EXPECT_THAT(depths, Contains(3U));
  EXPECT_EQ(naming_.stats().lines.answered, addresses_.size());
}

TEST_F(LineNamerTest, FilesOfRootHaveAChildOfTheirOwn) {
  const test::ScratchDirectory directory;
  const std::string copy = directory.path() / "copy";
  std::filesystem::copy_file(INLINED_PROGRAM, copy);
  ASSERT_EQ(::chown(copy.c_str(), 54'321, 54'321), 0);
  LineBudget budget(5s, 5s);
  std::vector<pid_t> children;
  for (const std::string& path : {std::string(INLINED_PROGRAM), copy}) {
    const HitFile hit = hit_of(path);
    const HitFile* const file = &hit;
    (void)naming_.files().name(hit, budgets_);
    naming_.files().add_lines({&file, 1}, budget);
    children.push_back(naming_.symbolizer());
    EXPECT_GT(children.back(), 0);
  }
  EXPECT_NE(children[0], children[1]);
}

// Of private memory, in bytes.
std::uint64_t memory_limit_of(pid_t process) {
  std::ifstream limits(fmt::format("/proc/{}/limits", process));
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(limits, line);) {
    if (line.starts_with("Max data size")) std::istringstream(line.substr(13)) >> bytes;
  }
  return bytes;
}

TEST_F(LineNamerTest, TheChildForFilesOfUsersMayHaveHalfOfTheMemory) {
  const test::ScratchDirectory directory;
  const std::string copy = directory.path() / "copy";
  std::filesystem::copy_file(INLINED_PROGRAM, copy);
  ASSERT_EQ(::chown(copy.c_str(), 54'321, 54'321), 0);
  LineBudget budget(5s, 5s);
  std::vector<std::uint64_t> limits;
  for (const std::string& path : {std::string(INLINED_PROGRAM), copy}) {
    const HitFile hit = hit_of(path);
    const HitFile* const file = &hit;
    (void)naming_.files().name(hit, budgets_);
    naming_.files().add_lines({&file, 1}, budget);
    limits.push_back(memory_limit_of(naming_.symbolizer()));
  }
  // What the program itself has comes on top, in both.
  constexpr std::int64_t kHalf = std::int64_t{256} << 20;
  EXPECT_GE(limits[1], static_cast<std::uint64_t>(kHalf));
  EXPECT_NEAR(static_cast<double>(limits[0]) - static_cast<double>(limits[1]), kHalf, kHalf / 8);
}

// The kernel may add the last milliseconds of a process's CPU time later.
TEST_F(LineNamerTest, WhatARequestTakesIsSpent) {
  const HitFile hit = hit_of(INLINED_PROGRAM);
  const HitFile* const file = &hit;
  LineBudget budget(5s, 5s);
  for (int i = 0; i < 200 && budget.left_for(kRootUser) == 5s; ++i) {
    CodeNaming naming{Parser::start().value()};
    (void)naming.files().name(hit, budgets_);
    naming.files().add_lines({&file, 1}, budget);
  }
  EXPECT_LT(budget.left_for(kRootUser), 5s);
}

TEST_F(LineNamerTest, WithoutTimeAnAddressIsAskedForLater) {
  const HitFile hit = hit_of(INLINED_PROGRAM);
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget spent(5s, 5s);
  spent.spend(kRootUser, 5s);
  const HitFile* const file = &hit;
  naming_.files().add_lines({&file, 1}, spent);
  const std::uint64_t address = addresses_.front();
  EXPECT_THAT(shown(*named.names, address), testing::ElementsAre("outer :0"));
  EXPECT_TRUE(named.names->find(address)->may_have_lines);
  LineBudget budget(5s, 5s);
  naming_.files().add_lines({&file, 1}, budget);
  EXPECT_EQ(shown(*named.names, address), addr2line(address));
}

// The program is a file of root.
TEST_F(LineNamerTest, WhatSamplesOfAUserHitIsPaidByTheUser) {
  HitFile hit = hit_of(INLINED_PROGRAM);
  set_payer(hit, kUser);
  const HitFile* const file = &hit;
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 1s, 1ns);
  budget.spend(kUser, 2500ms);
  naming_.files().add_lines({&file, 1}, budget);
  EXPECT_TRUE(named.names->find(addresses_.front())->may_have_lines);
  EXPECT_EQ(naming_.symbolizer(), -1);
  EXPECT_EQ(budget.left_for(kRootUser), 2500ms);
  const auto& lost = naming_.stats().lines.addresses_lost;
  EXPECT_EQ(lost.at(static_cast<std::size_t>(DwarfLoss::kCpuTime)), addresses_.size());
}

TEST_F(LineNamerTest, RootHasTheLinesOfWhatItsSamplesHitThoughUsersSpentTheirTime) {
  HitFile hit = hit_of(INLINED_PROGRAM);
  set_payer(hit, kUser);
  const auto first = *hit.samples_by_offset.begin();
  hit.hits_by_payer[kRootUser] = {.samples = first.second, .samples_by_offset = {first}};
  const HitFile* const file = &hit;
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 1s, 1ns);
  budget.spend(kUser, 2500ms);
  naming_.files().add_lines({&file, 1}, budget);
  EXPECT_EQ(shown(*named.names, addresses_.front()), addr2line(addresses_.front()));
  EXPECT_TRUE(named.names->find(addresses_.back())->may_have_lines);
  EXPECT_EQ(naming_.stats().lines.answered, 1U);
}

// Their own part is spent, but nobody else needs the rest.
TEST_F(LineNamerTest, InASessionUsersHaveTheTimeThatOthersLeave) {
  HitFile hit = hit_of(INLINED_PROGRAM);
  set_payer(hit, kUser);
  const HitFile* const file = &hit;
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 1s);
  budget.spend(kUser, 2500ms);
  naming_.files().add_lines({&file, 1}, budget);
  EXPECT_EQ(shown(*named.names, addresses_.front()), addr2line(addresses_.front()));
  const auto& lost = naming_.stats().lines.addresses_lost;
  EXPECT_EQ(lost.at(static_cast<std::size_t>(DwarfLoss::kCpuTime)), 0U);
}

// The child has no time, so it answers nothing.
TEST_F(LineNamerTest, InASessionAFileIsRefusedOnlyAfterItHadTheTimeThatOthersLeave) {
  LineNamer lines(SymbolizerLimits{.cpu_time = 0ms, .root_cpu_time = 0ms});
  const HitFile hit = hit_of(INLINED_PROGRAM);
  const NamedFile named = naming_.files().name(hit, budgets_);
  NameTable& names = naming_.cache().names_of(named.identity);
  const LineNamer::Source source{
      .fd = hit.file->fd.get(), .identity = named.identity, .payer = kUser, .samples = 1};
  const auto refused = [&lines] {
    return lines.stats().files_refused.at(static_cast<std::size_t>(DwarfLoss::kTimeLimit));
  };
  const auto lost = [&lines] {
    return lines.stats().addresses_lost.at(static_cast<std::size_t>(DwarfLoss::kCpuTime));
  };
  LineBudget budget = LineBudget::of_session();
  lines.add_lines(source, addresses_, names, budget);
  EXPECT_GT(lines.child(), 0);
  EXPECT_EQ(refused(), 0U);
  EXPECT_EQ(lost(), 0U);
  budget.share_rest();
  lines.add_lines(source, addresses_, names, budget);
  EXPECT_EQ(refused(), 1U);
  EXPECT_EQ(lost(), addresses_.size());
}

// All samples of the second and third request are worth less than the first one took, though in the
// third one each address has many; and those of the fourth one are worth more. The kernel may add
// the CPU time of the first one too late.
TEST_F(LineNamerTest, AFileThatTookLongWaitsForSamplesThatAreWorthIt) {
  HitFile hit = hit_of(INLINED_PROGRAM);
  const auto [last_offset, last_samples] = *hit.samples_by_offset.rbegin();
  const std::uint64_t last = addresses_.back();
  hit.samples_by_offset.erase(last_offset);
  set_payer(hit, kRootUser);
  HitFile later = hit;
  later.samples_by_offset = {{last_offset, last_samples}};
  set_payer(later, kRootUser);
  const std::array<const HitFile*, 2> files{&hit, &later};
  const std::span all(files);
  std::unique_ptr<CodeNaming> naming;
  LineBudget budget(5s, 5s, 1ns);
  for (int i = 0; i < 200 && (!naming || naming->stats().lines.cpu_time == 0ns); ++i) {
    naming = std::make_unique<CodeNaming>(Parser::start().value());
    (void)naming->files().name(hit, budgets_);
    naming->files().add_lines(all.first(1), budget);
  }
  ASSERT_GT(naming->stats().lines.cpu_time, 0ns);
  const NamedFile named = naming->files().name(later, budgets_);
  naming->files().add_lines(all.last(1), budget);
  EXPECT_TRUE(named.names->find(last)->may_have_lines);
  later.samples_by_offset[last_offset] = 60'000'000'000;
  set_payer(later, kRootUser);
  later.hits_by_payer[kRootUser].samples = 1;  // all in one stack
  naming->files().add_lines(all.last(1), budget);
  EXPECT_TRUE(named.names->find(last)->may_have_lines);
  set_payer(later, kRootUser);
  naming->files().add_lines(all.last(1), budget);
  EXPECT_EQ(shown(*named.names, last), addr2line(last));
}

TEST_F(LineNamerTest, WhatAFileTookIsForgottenWhenOnlyUsersHitItAndNoneDoesAnyMore) {
  const test::ScratchDirectory directory;
  const std::string copy = directory.path() / "copy";
  std::filesystem::copy_file(INLINED_PROGRAM, copy);
  ASSERT_EQ(::chown(copy.c_str(), kUser, kUser), 0);  // so its names are not those of the other
  const HitFile of_root = hit_of(INLINED_PROGRAM);
  HitFile of_user = hit_of(copy);
  set_payer(of_user, kUser);
  const std::array<const HitFile*, 2> files{&of_root, &of_user};
  for (const HitFile* const file : files) (void)naming_.files().name(*file, budgets_);
  LineBudget budget(5s, 5s);
  naming_.files().add_lines(files, budget);
  EXPECT_EQ(naming_.lines().known_files(), 2U);
  naming_.files().trim();
  EXPECT_EQ(naming_.lines().known_files(), 2U);
  naming_.files().trim(NameCache::Clock::now() + NameCache::kUnused + 1s);
  EXPECT_EQ(naming_.lines().known_files(), 1U);
}

TEST_F(LineNamerTest, AFileWithoutDwarfIsRefusedOnceAndKeepsItsNames) {
  const test::ScratchDirectory scratch;
  const std::string path = scratch.path() / "stripped";
  (void)test::output_of(fmt::format("objcopy -g {} {}", INLINED_PROGRAM, path));
  const HitFile hit = hit_of(path);
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 5s);
  const HitFile* const file = &hit;
  for (int i = 0; i < 2; ++i) naming_.files().add_lines({&file, 1}, budget);
  EXPECT_EQ(shown(*named.names, addresses_.front()), Shown{"outer :0"});
  const LineStats stats = naming_.stats().lines;
  EXPECT_EQ(stats.files_refused.at(static_cast<std::size_t>(DwarfLoss::kNoDwarf)), 1U);
  EXPECT_EQ(stats.answered, 0U);
}

TEST_F(LineNamerTest, AnAddressOfTheCacheIsNotAskedForAgain) {
  const HitFile hit = hit_of(INLINED_PROGRAM);
  const NamedFile named = naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 5s);
  const HitFile* const file = &hit;
  for (int i = 0; i < 2; ++i) naming_.files().add_lines({&file, 1}, budget);
  EXPECT_EQ(naming_.stats().lines.answered, addresses_.size());
  EXPECT_EQ(shown(*named.names, addresses_.front()), addr2line(addresses_.front()));
}

TEST_F(LineNamerTest, AWindowWithoutNewAddressesStartsNoSymbolizer) {
  const test::ScratchDirectory scratch;
  const std::string stripped = scratch.path() / "stripped";
  (void)test::output_of(fmt::format("objcopy -g {} {}", INLINED_PROGRAM, stripped));
  for (const std::string& path : {std::string(INLINED_PROGRAM), stripped}) {
    CodeNaming naming{Parser::start().value()};
    const HitFile hit = hit_of(path);
    const HitFile* const file = &hit;
    LineBudget budget(5s, 5s);
    (void)naming.files().name(hit, budgets_);
    naming.files().add_lines({&file, 1}, budget);
    EXPECT_GT(naming.symbolizer(), 0) << path;
    naming.finish({});
    (void)naming.files().name(hit, budgets_);
    naming.files().add_lines({&file, 1}, budget);
    EXPECT_EQ(naming.symbolizer(), -1) << path;
  }
}

TEST_F(LineNamerTest, TheSymbolizerEndsWithTheSession) {
  const HitFile hit = hit_of(INLINED_PROGRAM);
  (void)naming_.files().name(hit, budgets_);
  LineBudget budget(5s, 5s);
  const HitFile* const file = &hit;
  naming_.files().add_lines({&file, 1}, budget);
  EXPECT_GT(naming_.symbolizer(), 0);
  naming_.finish({.samples = 3, .fully_named = 2, .by_source = {}});
  EXPECT_EQ(naming_.symbolizer(), -1);
  EXPECT_EQ(naming_.stats().shares.samples, 3U);
  EXPECT_EQ(naming_.stats().cached_files, 1U);
}

}  // namespace
}  // namespace profd
