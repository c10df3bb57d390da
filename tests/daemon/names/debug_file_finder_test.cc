// Which debug file names the code of a stripped program, and when it is looked for again.

#include "daemon/names/debug_file_finder.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/names/code_naming.h"
#include "tests/collectors/users_mounts.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = R"(
  __attribute__((noinline)) static int local(int x) { return x * 3 + 1; }
  int main(int argc, char** argv) { return local(argc); }
)";

class DebugFileFinderTest : public testing::Test {
 protected:
  DebugFileFinderTest() {
    fs::create_directories(directory() + "/.build-id/01");
    naming_.finish({});  // the new directory is no change afterwards
  }

  void build(const std::string& id = "0x010203") {
    const std::string whole = built_.build("whole", kProgram, "gcc -O1 -g -Wl,--build-id=" + id);
    built_.run("objcopy --only-keep-debug whole program.debug");
    built_.run("objcopy --strip-all --add-gnu-debuglink=program.debug whole program");
    built_.run("mkdir .debug && mv program.debug .debug");
    address_ = test::nm_functions(whole).at("local");
    hit_ = {.file = test::open_mapped(built_.path("program")), .samples_by_offset = {}};
    const ElfSummary elf = read_elf_summary(hit_.file->fd.get()).value();
    for (const ElfSegment& segment : elf.segments) {
      const std::uint64_t inside = address_ - segment.vaddr;
      if (inside < segment.memory_bytes) hit_.samples_by_offset[segment.offset + inside] = 1;
    }
  }
  [[nodiscard]] std::string directory() const { return built_.path("debug"); }
  void install() const { built_.run("cp .debug/program.debug debug/.build-id/01/0203.debug"); }
  // Without it, that in .debug is found.
  void hide_link() const { built_.run("mv .debug hidden"); }

  std::string name() {
    SymbolBudgets budgets;
    const NamedFile named = naming_.files().name(hit_, budgets);
    const NameTable::Entry* const entry = named.names->find(address_);
    if (entry == nullptr) return "never";
    const auto lines = named.names->lines(*entry);
    const std::string name = lines.empty() ? "" : named.names->frame(lines.front()).name;
    return name + "(" + std::string(text_of(entry->source)) + ")";
  }
  [[nodiscard]] std::uint64_t found(DebugFilePlace place) const {
    return naming_.stats().debug_files.found.at(static_cast<std::size_t>(place));
  }
  [[nodiscard]] std::uint64_t refused(DebugFileRefusal refusal) const {
    return naming_.stats().debug_files.refused.at(static_cast<std::size_t>(refusal));
  }

  test::BuiltCode built_;
  std::uint64_t address_ = 0;
  HitFile hit_;
  CodeNaming naming_{Parser::start().value(), {.host = directory(), .cache = built_.path("cache")}};
};

TEST_F(DebugFileFinderTest, TheHostsDebugFileComesBeforeTheLink) {
  build();
  install();
  EXPECT_EQ(name(), "local(debug_file)");
  EXPECT_EQ(found(DebugFilePlace::kHost), 1U);
  EXPECT_EQ(found(DebugFilePlace::kLink), 0U);
}

TEST_F(DebugFileFinderTest, ALinkNamesAFileWithoutBuildId) {
  build("none");
  EXPECT_EQ(name(), "local(debug_file)");
  EXPECT_EQ(found(DebugFilePlace::kLink), 1U);
}

TEST_F(DebugFileFinderTest, ALinkToAFileWithAnotherChecksumIsRefusedByName) {
  build("none");
  built_.run("echo >> .debug/program.debug");
  EXPECT_EQ(name(), "(gap)");
  EXPECT_GE(refused(DebugFileRefusal::kOtherChecksum), 1U);
  EXPECT_EQ(found(DebugFilePlace::kLink), 0U);
}

TEST_F(DebugFileFinderTest, ADebugFileOfAnotherBuildIsRefusedByName) {
  build();
  hide_link();
  (void)built_.build("other", kProgram, "gcc -g -Wl,--build-id=0x010204");
  built_.run("cp other debug/.build-id/01/0203.debug");
  EXPECT_EQ(name(), "(gap)");
  EXPECT_GE(refused(DebugFileRefusal::kOtherBuildId), 1U);
}

// The test's directory is one that only root may enter.
TEST_F(DebugFileFinderTest, ADebugFileThatOnlyRootMayReachIsNotForUsers) {
  build();
  hit_.users = {0, 1000};
  EXPECT_EQ(name(), "(gap)");
  EXPECT_GE(refused(DebugFileRefusal::kNotReadable), 1U);
  EXPECT_EQ(found(DebugFilePlace::kLink), 0U);
}

TEST_F(DebugFileFinderTest, TheSameCountsForTheHostsDirectory) {
  build();
  install();
  hide_link();
  hit_.users = {1000};
  EXPECT_EQ(name(), "(gap)");
  EXPECT_GE(refused(DebugFileRefusal::kNotReadable), 1U);
}

// Though the file has one identity.
TEST_F(DebugFileFinderTest, NamesOfADebugFileThatOnlyRootMayReachAreKeptForRoot) {
  build();
  hit_.users = {0};
  EXPECT_EQ(name(), "local(debug_file)");
  hit_.users = {1000};
  EXPECT_EQ(name(), "(gap)");
  hit_.users = {0};
  const std::uint64_t looked_up = naming_.stats().looked_up;
  EXPECT_EQ(name(), "local(debug_file)");
  EXPECT_EQ(naming_.stats().looked_up, looked_up);
}

TEST_F(DebugFileFinderTest, RootHasTheLinesOfADebugFileThatOnlyRootMayReach) {
  build();
  LineBudget budget = LineBudget::of_session();
  const HitFile* const hit = &hit_;
  const auto set_user = [this](std::uint32_t user) {
    hit_.users = {user};
    hit_.hits_by_payer = {{user, {.samples = 1, .samples_by_offset = hit_.samples_by_offset}}};
  };
  set_user(0);
  EXPECT_EQ(name(), "local(debug_file)");
  naming_.files().add_lines(std::span(&hit, 1), budget);
  EXPECT_EQ(naming_.stats().lines.answered, 1U);
  set_user(1000);
  EXPECT_EQ(name(), "(gap)");
  naming_.files().add_lines(std::span(&hit, 1), budget);
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(naming_.stats().lines.answered, 1U);
}

TEST_F(DebugFileFinderTest, EverybodyHasTheNamesOfADebugFileThatEverybodyMayReach) {
  build();
  for (fs::path directory = built_.path(".debug"); directory != fs::temp_directory_path();
       directory = directory.parent_path()) {
    fs::permissions(directory, fs::perms::others_exec, fs::perm_options::add);
  }
  hit_.users = {1000};
  EXPECT_EQ(name(), "local(debug_file)");
}

// There the same path may be another place.
TEST_F(DebugFileFinderTest, PathsOfAProcessWithMountsOfItsOwnAreNotSearchedInTheHost) {
  build();
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  hit_.processes = {{.tgid = process.tgid(), .payer = 0}};
  EXPECT_EQ(name(), "(gap)");
  EXPECT_GE(refused(DebugFileRefusal::kUserMount), 1U);
  EXPECT_EQ(found(DebugFilePlace::kLink), 0U);
}

// A user can hide a debug file from processes of his own, and from them only.
TEST_F(DebugFileFinderTest, WhatOneProcessDoesNotSeeIsLookedForInTheRootOfAnother) {
  build();
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  hit_.processes = {{.tgid = process.tgid(), .payer = 0}};
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(naming_.stats().looked_up, 1U);
  hit_.processes.push_back({.tgid = static_cast<std::uint32_t>(::getpid()), .payer = 0});
  EXPECT_EQ(name(), "local(debug_file)");
}

// The path of a file is the one by which the first process knows it, who may be a hostile user's.
TEST_F(DebugFileFinderTest, ALinkIsFollowedFromThePathByWhichEachProcessKnowsTheFile) {
  build("none");
  const auto path = std::make_shared<const std::string>(hit_.file->path);
  MappedFile moved{.key = hit_.file->key,
                   .path = "/nowhere/program",
                   .fd = UniqueFd(::open(path->c_str(), O_RDONLY | O_CLOEXEC)),
                   .owner = hit_.file->owner,
                   .is_private = hit_.file->is_private};
  hit_.file = std::make_shared<const MappedFile>(std::move(moved));
  const auto self = static_cast<std::uint32_t>(::getpid());
  hit_.processes = {{.tgid = self, .payer = 1000}};
  EXPECT_EQ(name(), "(gap)");
  hit_.processes.push_back({.tgid = self, .payer = 0, .own_path = path});
  EXPECT_EQ(name(), "local(debug_file)");
  EXPECT_EQ(found(DebugFilePlace::kLink), 1U);
}

// Their searches never repeat one that found nothing.
TEST_F(DebugFileFinderTest, ProcessesThatAlwaysHaveANewRootTakeNamesFromNobodyElse) {
  build();
  const auto self = static_cast<std::uint32_t>(::getpid());
  std::vector<std::unique_ptr<test::UsersMounts>> attackers;  // all live, so no root is there twice
  const auto set_processes = [&](std::initializer_list<std::uint32_t> users) {
    hit_.processes.clear();
    for (const std::uint32_t user : users) {
      attackers.push_back(std::make_unique<test::UsersMounts>([] { return true; }));
      ASSERT_TRUE(attackers.back()->is_ready());
      hit_.processes.push_back({.tgid = attackers.back()->tgid(), .payer = user});
    }
  };
  std::string found = "(gap)";
  for (int window = 0; window < 30 && found == "(gap)"; ++window) {
    set_processes({1000, 1000, 1001, 1001});
    hit_.processes.push_back({.tgid = self, .payer = 3000});
    found = name();
  }
  EXPECT_EQ(found, "local(debug_file)");
}

TEST_F(DebugFileFinderTest, RootsProcessesAreSearchedFirst) {
  build();
  const test::UsersMounts first([] { return true; });
  const test::UsersMounts second([] { return true; });
  ASSERT_TRUE(first.is_ready() && second.is_ready());
  hit_.processes = {{.tgid = first.tgid(), .payer = 1000},
                    {.tgid = second.tgid(), .payer = 1001},
                    {.tgid = static_cast<std::uint32_t>(::getpid()), .payer = 0}};
  EXPECT_EQ(name(), "local(debug_file)");
}

// Of data: no function has it.
TEST_F(DebugFileFinderTest, WhatTheDebugFileDoesNotNameIsNotLookedUpAgain) {
  build();
  const ElfSummary elf = read_elf_summary(hit_.file->fd.get()).value();
  const auto data = std::ranges::find_if(
      elf.segments, [](const ElfSegment& segment) { return (segment.flags & PF_W) != 0; });
  ASSERT_NE(data, elf.segments.end());
  hit_.samples_by_offset = {{data->offset, 1}};
  address_ = data->vaddr;
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(found(DebugFilePlace::kLink), 1U);
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(naming_.stats().looked_up, 1U);
  EXPECT_EQ(found(DebugFilePlace::kLink), 1U);
}

// The time was spent for other files.
TEST_F(DebugFileFinderTest, WithoutTimeADebugFileIsSearchedForAgain) {
  build();
  install();
  const ElfSummary elf = read_elf_summary(hit_.file->fd.get()).value();
  const DebugFileFinder::Wanted wanted{.fd = hit_.file->fd.get(),
                                       .identity = "program",
                                       .query = {.build_id = elf.build_id,
                                                 .debug_link = elf.debug_link,
                                                 .path = hit_.file->path,
                                                 .owner = 1000}};
  const std::unique_ptr<Parser> parser = Parser::start().value();
  DebugFileFinder finder(*parser, {.host = directory(), .cache = built_.path("cache")});
  std::chrono::nanoseconds time{0};
  EXPECT_FALSE(finder.find(wanted, time).file);
  EXPECT_TRUE(finder.is_due(wanted));
  time = std::chrono::seconds(5);
  EXPECT_TRUE(finder.find(wanted, time).file);
}

TEST_F(DebugFileFinderTest, AnInstalledDebugFileNamesWhatHadNoName) {
  build();
  hide_link();
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(naming_.stats().looked_up, 1U);
  naming_.finish({});
  EXPECT_EQ(name(), "(gap)");
  EXPECT_EQ(naming_.stats().looked_up, 1U);
  built_.run("cp hidden/program.debug debug/.build-id/01/0203.debug");
  naming_.finish({});
  EXPECT_EQ(name(), "local(debug_file)");
  EXPECT_EQ(naming_.stats().looked_up, 2U);
}

}  // namespace
}  // namespace profd
