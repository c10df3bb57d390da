// Files that the parser could not read in time, and when they are named after all.

#include "daemon/names/file_namer.h"

#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "daemon/names/code_naming.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class FileNamerTest : public testing::Test {
 protected:
  FileNamerTest() {
    const std::string program =
        built_.build("program", "int main(void) { return 0; }", "gcc -O1 -g");
    address_ = test::nm_functions(program).at("main");
    hit_ = {.file = test::open_mapped(program), .samples_by_offset = {}};
    const ElfSummary elf = read_elf_summary(hit_.file->fd.get()).value();
    for (const ElfSegment& segment : elf.segments) {
      const std::uint64_t inside = address_ - segment.vaddr;
      if (inside < segment.memory_bytes) hit_.samples_by_offset[segment.offset + inside] = 1;
    }
  }

  // The name of main; empty where it has none.
  std::string name() {
    const NamedFile named = naming_.files().name(hit_, budgets_);
    missing_ = named.missing;
    const NameTable::Entry* const entry =
        named.names == nullptr ? nullptr : named.names->find(address_);
    if (entry == nullptr || named.names->lines(*entry).empty()) return "";
    return named.names->frame(named.names->lines(*entry).front()).name;
  }
  void stop_parser() {
    ASSERT_GT(child(), 0);
    ASSERT_EQ(::kill(child(), SIGSTOP), 0);
  }
  [[nodiscard]] pid_t child() { return naming_.parser().child(); }

  test::BuiltCode built_;
  std::uint64_t address_ = 0;
  HitFile hit_;
  SymbolBudgets budgets_;
  NameSource missing_ = NameSource::kGap;
  CodeNaming naming_{Parser::start({.wall_time = 200ms}).value()};
};

TEST_F(FileNamerTest, AFileThatWasNotReadInTimeIsReadLater) {
  stop_parser();
  EXPECT_EQ(name(), "");
  EXPECT_EQ(missing_, NameSource::kRefused);
  const auto end = Clock::now() + 60s;
  while (name().empty() && Clock::now() < end) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(name(), "main");
}

// A request that times out ends the child, and the next one starts another.
TEST_F(FileNamerTest, AFileThatWasNotReadInTimeIsNotTriedAgainAtOnce) {
  for (int tries = 0; tries < 10; ++tries) {
    stop_parser();
    name();
    const Clock::time_point begin = Clock::now();
    ASSERT_LE(child(), 0);
    name();
    if (Clock::now() - begin >= 1s) continue;  // a busy host: a new child is right
    EXPECT_LE(child(), 0);
    return;
  }
  FAIL() << "the host is too busy: ten times, two calls took longer than a second";
}

TEST_F(FileNamerTest, AFileThatIsNotUsedForMinutesIsReadAgain) {
  EXPECT_EQ(name(), "main");
  stop_parser();
  naming_.files().trim(Clock::now() + NameCache::kUnused - 30s);
  EXPECT_EQ(name(), "main");
  naming_.files().trim(Clock::now() + NameCache::kUnused + 30s);
  EXPECT_EQ(name(), "");
}

// Also not when the names are known already: the owner ran it before.
TEST_F(FileNamerTest, AProgramThatNoneOfItsUsersMayReadHasNoNames) {
  const std::string path = built_.path("program");
  ASSERT_EQ(::chmod(path.c_str(), 0711), 0);
  hit_.file = test::open_mapped(path);
  hit_.users = {hit_.file->owner};
  EXPECT_EQ(name(), "main");
  hit_.users.insert(1000);
  EXPECT_EQ(name(), "main");
  hit_.users = {1000};
  EXPECT_EQ(name(), "");
  EXPECT_EQ(missing_, NameSource::kNotReadable);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  hit_.file = test::open_mapped(path);
  EXPECT_EQ(name(), "main");
}

// They have one build id, and the stripped one was asked first.
TEST_F(FileNamerTest, AProgramHasNamesThatItsStrippedCopyHasNot) {
  const HitFile program = hit_;
  built_.run("strip -o stripped program");
  hit_.file = test::open_mapped(built_.path("stripped"));
  EXPECT_EQ(name(), "");
  hit_ = program;
  EXPECT_EQ(name(), "main");
  hit_.file = test::open_mapped(built_.path("stripped"));
  EXPECT_EQ(name(), "");
}

TEST(SymbolBudgets, OwnersBeyondTheLimitShareABudgetAndRootHasItsOwn) {
  SymbolBudgets budgets({.table_bytes = 100, .time = 1s});
  for (std::uint32_t owner = 1; owner <= SymbolBudgets::kMaxOwners; ++owner) {
    budgets.of(owner).table_bytes -= owner;
  }
  EXPECT_EQ(budgets.of(1000).table_bytes, 100U);
  budgets.of(1000).table_bytes = 30;
  EXPECT_EQ(budgets.of(1001).table_bytes, 30U);
  EXPECT_EQ(budgets.of(0).table_bytes, 100U);
  EXPECT_EQ(budgets.of(3).table_bytes, 97U);
}

TEST_F(FileNamerTest, SubordinateUidsShareTheBudgetOfTheirUser) {
  const std::string subuid = built_.path("subuid");
  std::ofstream(subuid) << "1000:100000:65536\n";
  SymbolBudgets budgets({.table_bytes = 100}, UidOwners(subuid));
  budgets.of(100'001).table_bytes = 30;
  EXPECT_EQ(budgets.of(1000).table_bytes, 30U);
  EXPECT_EQ(budgets.of(165'535).table_bytes, 30U);
  EXPECT_EQ(budgets.of(165'536).table_bytes, 100U);
}

TEST_F(FileNamerTest, AFileWhoseNamesAreKnownTakesNoBudget) {
  ASSERT_EQ(::chown(built_.path("program").c_str(), 1000, 1000), 0);
  hit_.file = test::open_mapped(built_.path("program"));
  EXPECT_EQ(name(), "main");
  const std::uint64_t all = SymbolBudget().table_bytes;
  EXPECT_LT(budgets_.of(1000).table_bytes, all);
  budgets_ = SymbolBudgets();
  EXPECT_EQ(name(), "main");
  EXPECT_EQ(budgets_.of(1000).table_bytes, all);
}

// Each file is named once more, as its names are kept for each owner and build id.
TEST_F(FileNamerTest, NewNamesOfAUsersFilesAreLimitedAndThoseOfRootAreNot) {
  const std::string path = built_.path("program");
  budgets_ = SymbolBudgets({.kept_bytes = 1});
  EXPECT_EQ(name(), "main");
  EXPECT_EQ(budgets_.of(0).kept_bytes, 1U);
  ASSERT_EQ(::chown(path.c_str(), 1000, 1000), 0);
  hit_.file = test::open_mapped(path);
  EXPECT_EQ(name(), "main") << "one file may take more than there is";
  EXPECT_EQ(budgets_.of(1000).kept_bytes, 0U);
  EXPECT_EQ(name(), "main") << "it is known now";
  built_.build("program", "int main(void) { return 1; }", "gcc -O1 -g");
  ASSERT_EQ(::chown(path.c_str(), 1000, 1000), 0);
  hit_.file = test::open_mapped(path);
  EXPECT_EQ(name(), "");
  EXPECT_EQ(missing_, NameSource::kOverBudget);
  budgets_ = SymbolBudgets();
  EXPECT_EQ(name(), "main") << "in a later window";
}

TEST_F(FileNamerTest, AFileThatIsNotElfIsNotTriedAgain) {
  built_.run("echo text > text");
  hit_.file = test::open_mapped(built_.path("text"));
  EXPECT_EQ(name(), "");
  std::this_thread::sleep_for(1100ms);
  stop_parser();
  EXPECT_EQ(name(), "");
  EXPECT_GT(child(), 0) << "a request would have ended it";
}

}  // namespace
}  // namespace profd
