// What is remembered of a file whose entry function could not be found.

#include "daemon/profiles/entry_functions.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/chain_program.h"

namespace profd {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class FailingParser final : public test::LocalParser {
 public:
  Result<ElfSummary> read_elf_summary(int fd) override {
    ++requests;
    if (no_summary) return *no_summary;
    return LocalParser::read_elf_summary(fd);
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override {
    ++requests;
    if (no_symbols) return *no_symbols;
    return LocalParser::find_elf_symbols(fd, addresses, budget);
  }

  std::optional<Error> no_summary;
  std::optional<Error> no_symbols;
  int requests = 0;
};

class EntryFunctionsTest : public testing::Test {
 protected:
  static constexpr std::size_t kMaxEntries = 1000;

  EntryFunctionsTest() {
    const ElfSummary elf = read_elf_summary(file_->fd.get()).value();
    for (const ElfSegment& segment : elf.segments) {
      const std::uint64_t inside = elf.entry - segment.vaddr;
      if (elf.entry >= segment.vaddr && inside < segment.memory_bytes) {
        offsets_ = {segment.offset + inside};
      }
    }
  }

  std::set<std::uint64_t> select() { return select(*file_); }
  std::set<std::uint64_t> select(const MappedFile& file) {
    SymbolBudget budget;
    return entries_.select(file, offsets_, budget);
  }

  std::shared_ptr<const MappedFile> file_ = test::open_mapped(CHAIN_PROGRAM);
  std::set<std::uint64_t> offsets_;  // of the entry point
  FailingParser parser_;
  EntryFunctions entries_{parser_};
};

TEST_F(EntryFunctionsTest, AnAnswerIsRemembered) {
  EXPECT_EQ(select(), offsets_);
  const int requests = parser_.requests;
  entries_.trim(kMaxEntries);
  EXPECT_EQ(select(), offsets_);
  EXPECT_EQ(parser_.requests, requests);
}

TEST_F(EntryFunctionsTest, AUsersFileThatIsNotUsedForMinutesIsReadAgain) {
  const auto later = NameCache::Clock::now() + NameCache::kUnused + std::chrono::seconds(1);
  MappedFile of_user;
  of_user.key = file_->key;
  of_user.key.inode += 1;
  of_user.fd.reset(::dup(file_->fd.get()));
  of_user.owner = 1000;
  EXPECT_EQ(select(*file_), offsets_);
  EXPECT_EQ(select(of_user), offsets_);
  const int requests = parser_.requests;
  entries_.trim(kMaxEntries);
  entries_.trim(kMaxEntries, later);
  EXPECT_EQ(select(*file_), offsets_);
  EXPECT_EQ(parser_.requests, requests) << "root's file";
  EXPECT_EQ(select(of_user), offsets_);
  EXPECT_GT(parser_.requests, requests);
}

TEST_F(EntryFunctionsTest, AFileThatIsOpenedLaterIsReadThen) {
  MappedFile closed;
  closed.key = file_->key;
  EXPECT_THAT(select(closed), IsEmpty());
  EXPECT_EQ(select(), offsets_);
}

TEST_F(EntryFunctionsTest, AfterAFailureTheNextWindowAsksAgain) {
  parser_.no_summary = fail(ErrorCode::kTimeout, "the parser was too slow");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(select(), IsEmpty());
  EXPECT_EQ(parser_.requests, 1);
  parser_.no_summary.reset();
  parser_.no_symbols = fail(ErrorCode::kTooLarge, "the budget is spent");
  entries_.trim(kMaxEntries);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(select(), IsEmpty());
  EXPECT_EQ(parser_.requests, 3);
  parser_.no_symbols.reset();
  entries_.trim(kMaxEntries);
  EXPECT_EQ(select(), offsets_);
}

TEST_F(EntryFunctionsTest, AFileThatIsNotElfIsAskedForOnce) {
  parser_.no_summary = fail(ErrorCode::kMalformed, "no ELF file");
  for (int i = 0; i < 3; ++i) {
    entries_.trim(kMaxEntries);
    EXPECT_THAT(select(), IsEmpty());
  }
  EXPECT_EQ(parser_.requests, 1);
}

TEST_F(EntryFunctionsTest, AFileThatAlwaysFailsIsAskedForALimitedNumberOfTimes) {
  parser_.no_summary = fail(ErrorCode::kTimeout, "the parser was too slow");
  for (int i = 0; i < 1000; ++i) {
    entries_.trim(kMaxEntries);
    EXPECT_THAT(select(), IsEmpty());
  }
  EXPECT_LE(parser_.requests, 16);
}

}  // namespace
}  // namespace profd
