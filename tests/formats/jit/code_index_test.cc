#include "formats/jit/code_index.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/jit/jitdump_reader.h"
#include "tests/formats/jit/files.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

constexpr std::uint64_t kIndexed = 0x7f0000000000;
constexpr std::uint64_t kAll = ~std::uint64_t{0};
const std::string kNone = "(none)";

JitCode code_of(std::string_view name, std::uint64_t address, std::uint64_t bytes,
                std::uint64_t born_ns) {
  JitCode code;
  code.name = name;
  code.address = address;
  code.bytes = bytes;
  code.born_ns = born_ns;
  return code;
}

std::string name_at(const JitCodeIndex& index, std::uint64_t address, std::uint64_t time_ns) {
  const auto found = index.at(address, time_ns);
  return found ? std::string(found->name) : kNone;
}

TEST(JitCodeIndex, NamesTheCodeThatLivedAtTheTime) {
  JitCodeIndex index;
  index.add(code_of("old", kIndexed, 0x100, 10));
  index.add(code_of("new", kIndexed + 0x80, 0x100, 20));
  struct Case {
    std::uint64_t address;
    std::uint64_t time_ns;
    std::string name;
  };
  for (const Case& c :
       {Case{kIndexed - 1, 15, kNone}, Case{kIndexed, 15, "old"}, Case{kIndexed + 0xff, 15, "old"},
        Case{kIndexed, 25, "old"}, Case{kIndexed + 0x7f, 25, "old"},
        Case{kIndexed + 0x80, 19, "old"}, Case{kIndexed + 0x80, 20, "new"},
        Case{kIndexed + 0x17f, 25, "new"}, Case{kIndexed + 0x180, 25, kNone}}) {
    EXPECT_EQ(name_at(index, c.address, c.time_ns), c.name)
        << c.address - kIndexed << " " << c.time_ns;
  }
}

TEST(JitCodeIndex, FindsTheSuccessorOfAFunctionThatItHasToo) {
  const JitCode known = code_of("known", kIndexed, 0x100, 10);
  struct Case {
    std::vector<JitCode> added;
    std::string successor;
  };
  const JitCode newer = code_of("newer", kIndexed + 0x80, 0x100, 30);
  for (const Case& c :
       {Case{{code_of("known", kIndexed, 0x100, 20), newer}, "newer"},
        Case{{code_of("known", kIndexed, 0x100, 30), newer}, "newer"},
        Case{{newer, code_of("known", kIndexed, 0x100, 30)}, kNone}, Case{{newer}, kNone},
        Case{{code_of("named otherwise", kIndexed, 0x100, 20), newer}, kNone},
        Case{{code_of("known", kIndexed, 0x80, 20), newer}, kNone},
        Case{{code_of("known", kIndexed, 0x100, 5), code_of("n", kIndexed, 9, 8)}, kNone},
        Case{{code_of("known", kIndexed, 0x100, 20)}, kNone}}) {
    JitCodeIndex index;
    for (const JitCode& code : c.added) index.add(code);
    const auto found = index.successor_of(known, kIndexed + 0x80, 40);
    EXPECT_EQ(found ? std::string(found->name) : kNone, c.successor);
    EXPECT_FALSE(index.successor_of(known, kIndexed + 0x80, 29));
  }
}

TEST(JitCodeIndex, FallsBackToTheOldestLaterFunctionWhereNothingLived) {
  JitCodeIndex index;
  index.add(code_of("second", kIndexed, 0x100, 40));
  index.add(code_of("first", kIndexed, 0x100, 30));
  EXPECT_EQ(name_at(index, kIndexed, 5), "first");
  index.end(kIndexed, 0x100, 35);
  EXPECT_EQ(name_at(index, kIndexed, 34), "first");
  EXPECT_EQ(name_at(index, kIndexed, 36), "second");
}

TEST(JitCodeIndex, LetsALateRecordNameEarlierSamples) {
  JitCodeIndex index;
  index.add(code_of("late", kIndexed, 0x100, 30));
  index.add(code_of("added last, born first", kIndexed, 0x100, 20));
  EXPECT_EQ(name_at(index, kIndexed, 25), "added last, born first");
  EXPECT_EQ(name_at(index, kIndexed, 30), "late");
}

TEST(JitCodeIndex, EndsCodeWhenItsMemoryIsUnmapped) {
  JitCodeIndex index;
  index.add(code_of("a", kIndexed, 0x100, 10));
  index.add(code_of("b", kIndexed + 0x1000, 0x100, 10));
  index.end(kIndexed + 0x80, 0x800, 20);
  EXPECT_EQ(name_at(index, kIndexed + 0x80, 19), "a");
  EXPECT_EQ(name_at(index, kIndexed + 0x80, 20), kNone);
  EXPECT_EQ(name_at(index, kIndexed + 0x7f, 20), "a");
  index.end(0, kAll, 30);  // exec
  EXPECT_EQ(name_at(index, kIndexed, 29), "a");
  EXPECT_EQ(name_at(index, kIndexed, 30), kNone);
  EXPECT_EQ(name_at(index, kIndexed + 0x1000, 31), kNone);
  EXPECT_EQ(index.functions(), 2U);
}

TEST(JitCodeIndex, EndsCodeThatIsAddedAfterItsEnd) {
  JitCodeIndex index;
  index.end(kIndexed, 0x1000, 20);
  index.add(code_of("a", kIndexed, 0x100, 10));
  EXPECT_EQ(name_at(index, kIndexed, 19), "a");
  EXPECT_EQ(name_at(index, kIndexed, 20), kNone);
  index.add(code_of("a", kIndexed, 0x100, 30));
  EXPECT_EQ(name_at(index, kIndexed, 30), "a");
}

TEST(JitCodeIndex, KnowsWhereNothingChangedSince) {
  JitCodeIndex index;
  index.add(code_of("a", kIndexed, 0x100, 10));
  EXPECT_FALSE(index.is_unchanged_since(kIndexed + 0xff, 1, 9));
  EXPECT_TRUE(index.is_unchanged_since(kIndexed, 0x1000, 10));
  EXPECT_TRUE(index.is_unchanged_since(kIndexed + 0x100, 0x1000, 9));
}

TEST(JitCodeIndex, MovesCodeWithItsNameAndLines) {
  JitCodeIndex index;
  JitCode code = code_of("a", kIndexed, 0x100, 10);
  code.code = {500, 0x100};
  code.debug_info = {100, 300};
  code.unwinding_info = {40, 60};
  index.add(code);
  index.move(kIndexed, kIndexed + 0x80, 20);  // overlaps its old place
  EXPECT_EQ(name_at(index, kIndexed, 19), "a");
  EXPECT_EQ(name_at(index, kIndexed, 20), kNone);
  const auto moved = index.at(kIndexed + 0x17f, 20);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->address, kIndexed + 0x80);
  EXPECT_EQ(moved->name, "a");
  EXPECT_EQ(moved->code, code.code);
  EXPECT_EQ(moved->debug_info, code.debug_info);
  EXPECT_EQ(moved->unwinding_info, code.unwinding_info);
}

TEST(JitCodeIndex, CountsMovesOfCodeThatIsNotThere) {
  JitCodeIndex index;
  index.move(kIndexed, kIndexed + 0x1000, 5);
  index.add(code_of("a", kIndexed, 0x100, 10));
  index.move(kIndexed + 8, kIndexed + 0x1000, 20);
  for (int i = 0; i < 3; ++i) {  // back and forth
    index.move(kIndexed, kIndexed + 0x1000, 20);
    index.move(kIndexed + 0x1000, kIndexed, 20);
  }
  EXPECT_EQ(index.losses().unknown_moves, 2U);
  EXPECT_EQ(name_at(index, kIndexed, 21), "a");
}

TEST(JitCodeIndex, AddsCodeAgainOnlyWhereSomethingChangedSince) {
  JitCodeIndex index;
  for (std::uint64_t i = 0; i < 3; ++i) index.add(code_of("a", kIndexed, 0x1000, 10 + i));
  EXPECT_EQ(index.functions(), 1U);
  index.add(code_of("small", kIndexed + 0x800, 0x20, 20));
  index.add(code_of("a", kIndexed, 0x1000, 30));
  EXPECT_EQ(index.functions(), 3U);
  EXPECT_EQ(name_at(index, kIndexed + 0x800, 25), "small");
  EXPECT_EQ(name_at(index, kIndexed + 0x800, 30), "a");
  index.add(code_of("a", kIndexed, 0x1001, 40));
  index.add(code_of("b", kIndexed, 0x1001, 40));
  EXPECT_EQ(index.functions(), 5U);
}

// The same answers as the index, from a search of all rows.
class Model {
 public:
  void add(const JitCode& code, bool is_function = true) {
    rows_.push_back(
        {code.address, code.bytes, code.born_ns, is_function ? std::string(code.name) : ""});
  }
  [[nodiscard]] std::string at(std::uint64_t address, std::uint64_t time_ns) const {
    const Row* youngest = nullptr;
    const Row* earliest = nullptr;
    for (const Row& row : rows_) {
      if (address - row.address >= row.bytes) continue;
      if (row.born_ns <= time_ns && (youngest == nullptr || row.born_ns >= youngest->born_ns))
        youngest = &row;
      if (row.born_ns > time_ns && !row.name.empty() &&
          (earliest == nullptr || row.born_ns < earliest->born_ns))
        earliest = &row;
    }
    if (youngest != nullptr && !youngest->name.empty()) return youngest->name;
    return earliest == nullptr ? kNone : earliest->name;
  }

 private:
  struct Row {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t born_ns;
    std::string name;
  };
  std::vector<Row> rows_;
};

// Sizes from 1 byte to 1 MiB within 2 MiB, in and out of order.
TEST(JitCodeIndex, AgreesWithAModelThatSearchesAllRows) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    std::mt19937_64 random(seed);
    JitCodeIndex index;
    Model model;
    for (unsigned i = 0; i < 1500; ++i) {
      const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << random() % 21);
      const std::uint64_t late = random() % 10 == 0 ? random() % 500 : 0;
      const std::string name = random() % 50 == 0 ? "again" : "f" + std::to_string(i);
      const JitCode code = code_of(name, kIndexed + random() % (1 << 21), bytes,
                                   1000 + i - std::min<std::uint64_t>(late, i));
      if (random() % 20 == 0) {
        index.end(code.address, code.bytes, code.born_ns);
        model.add(code, false);
      } else {
        index.add(code);
        model.add(code);
      }
    }
    for (unsigned i = 0; i < 5000; ++i) {
      const std::uint64_t address = kIndexed + random() % (3 << 20);
      const std::uint64_t time_ns = 900 + random() % 1800;
      ASSERT_EQ(name_at(index, address, time_ns), model.at(address, time_ns)) << seed << " " << i;
    }
  }
}

// The model has no limit. The index forgets, and then has no answer rather than a wrong one.
TEST(JitCodeIndex, NeverGivesAWrongNameAfterItHasForgotten) {
  constexpr std::size_t kMost = 400;
  JitCodeIndex index({.generations = kMost, .name_bytes = std::size_t{1} << 20});
  Model model;
  std::mt19937_64 random(5);
  const std::uint64_t hot = kIndexed + 0x8000;
  index.add(code_of("hot", hot, 0x40, 1));
  model.add(code_of("hot", hot, 0x40, 1));
  std::size_t named = 0;
  for (unsigned i = 0; i < 5000; ++i) {
    const std::string name = "f" + std::to_string(i);
    std::uint64_t address = kIndexed + random() % (1 << 15);
    if (address > hot - 0x1000) address -= 0x1000;
    const std::uint64_t late = random() % 10 == 0 ? random() % 300 : 0;
    const std::uint64_t born_ns = 10 + i - std::min<std::uint64_t>(late, i);
    const JitCode code = code_of(name, address, 1 + random() % 0x800, born_ns);
    index.add(code);
    model.add(code);
    ASSERT_LE(index.functions(), kMost);
    ASSERT_EQ(name_at(index, hot + 1, 10 + i), "hot") << "an answer stays";
    if (i % 16 != 0) continue;
    for (const std::uint64_t back : {0, 5, 100, 1000}) {
      const std::uint64_t at = kIndexed + random() % (1 << 15);
      const std::uint64_t time_ns = 10 + i - std::min<std::uint64_t>(back, i);
      const std::string found = name_at(index, at, time_ns);
      if (found == kNone) continue;
      ++named;
      ASSERT_EQ(found, model.at(at, time_ns)) << i << " " << back;
    }
  }
  EXPECT_GT(named, 400U);
  EXPECT_GT(index.losses().forgotten, 4000U);
}

TEST(JitCodeIndex, LimitsTheBytesOfNames) {
  JitCodeIndex index({.generations = 100'000, .name_bytes = 1 << 20});
  for (unsigned i = 0; i < 2000; ++i)
    index.add(code_of(std::string(4000, 'n') + std::to_string(i), kIndexed + 0x100 * i, 0x100, i));
  EXPECT_LT(index.memory_bytes(), std::size_t{4} << 20);
  EXPECT_GT(index.functions(), 150U);
  EXPECT_NE(name_at(index, kIndexed + 0x100 * 1999, 3000), kNone);
}

TEST(JitCodeIndex, AcceptsRangesAtTheEdgesOfTheAddressSpace) {
  JitCodeIndex index;
  index.add(code_of("first", 0, 1, 10));
  index.add(code_of("last", kAll - 0xf, 0x10, 10));
  index.add(code_of("nothing", kIndexed, 0, 10));
  index.add(code_of("too much", kIndexed, jitdump::kMaxCodeBytes + 1, 10));
  EXPECT_EQ(name_at(index, 0, 10), "first");
  EXPECT_EQ(name_at(index, kAll, 10), "last");
  EXPECT_EQ(name_at(index, kAll - 0x10, 10), kNone);
  EXPECT_EQ(index.functions(), 2U);
}

// As perf does it: each LOAD is an image that replaces what it overlaps, from its time on.
TEST(JitCodeIndex, NamesRealCodeByTheLastLoadBeforeTheTime) {
  for (const char* name : {"node.dump", "php.dump", "erlang.dump", "bun.dump"}) {
    const std::string file = test::read_file(std::string(FORMATS_TEST_DATA) + "/jit/" + name);
    const test::ReadJitDump read = test::read_whole(file);
    JitCodeIndex index;
    Model model;
    for (const JitDumpEvent& event : read.events) {
      if (event.kind != JitDumpEventKind::kLoad) continue;
      JitCode code = code_of(event.name, event.address, event.code_bytes, event.timestamp);
      code.code = event.code;
      code.debug_info = event.debug_info;
      index.add(code);
      model.add(code);
    }
    for (const JitDumpEvent& event : read.events) {
      if (event.kind != JitDumpEventKind::kLoad) continue;
      for (const std::uint64_t at : {event.address, event.address + event.code_bytes - 1})
        ASSERT_EQ(name_at(index, at, event.timestamp), model.at(at, event.timestamp)) << name;
      const auto found = index.at(event.address, event.timestamp);
      if (found->born_ns == event.timestamp && found->name == event.name) {
        EXPECT_EQ(found->code, event.code);
        EXPECT_EQ(found->debug_info, event.debug_info);
      }
    }
  }
}

// Two names in turn, since the same code is not added again.
void add_many(JitCodeIndex& index, std::uint64_t address, std::uint64_t bytes, std::size_t count,
              std::uint64_t born_ns) {
  for (std::size_t i = 0; i < count; ++i) {
    index.add(code_of(i % 2 == 0 ? "a" : "b", address, bytes, born_ns + i));
  }
}

TEST(JitCodeIndex, ForgetsALateRecordBesideThousandsOfYoungerOnes) {
  JitCodeIndex index;
  add_many(index, kIndexed, 1, 5000, 1000);
  index.add(code_of("recent", kIndexed + 16, 1, 5900));
  index.add(code_of("long ago", kIndexed + 32, 1, 1));
  EXPECT_EQ(name_at(index, kIndexed + 16, 5901), "recent");
  EXPECT_EQ(name_at(index, kIndexed + 32, 5901), kNone);
  EXPECT_EQ(index.losses().forgotten, 1U);
}

TEST(JitCodeIndex, LimitsTheStepsOfASearchOverAllSizesTogether) {
  constexpr std::uint64_t kLarge = 0x1000;
  JitCodeIndex index;
  index.add(code_of("f", kIndexed, 2 * kLarge, 1));
  add_many(index, kIndexed + 16, 1, 700, 1000);
  EXPECT_EQ(name_at(index, kIndexed, 9000), "f");
  add_many(index, kIndexed + kLarge / 2, kLarge / 2, 700, 5000);
  EXPECT_EQ(name_at(index, kIndexed, 9000), kNone);
}

// Seven neighbours of equal size in one bucket, each replaced a hundred times.
TEST(JitCodeIndex, FindsAFunctionWhoseNeighboursWereReplacedAHundredTimes) {
  constexpr std::uint64_t kBytes = 0x100;
  JitCodeIndex index;
  index.add(code_of("lives on", kIndexed, kBytes, 1));
  for (std::uint64_t i = 0; i < 700; ++i) {
    index.add(code_of("f" + std::to_string(i), kIndexed + (1 + i % 7) * kBytes, kBytes, 1000 + i));
  }
  EXPECT_EQ(name_at(index, kIndexed, 9000), "lives on");
}

// A search that would find the code takes more steps than are spent on an addition.
TEST(JitCodeIndex, AddsKnownCodeAgainAndKnowsNoMoveBesideHundredsOfYoungerRows) {
  constexpr std::uint64_t kFew = 100;
  for (const std::uint64_t rows : {kFew, 3 * kFew}) {
    JitCodeIndex index;
    index.add(code_of("f", kIndexed, 0x10, 1));
    add_many(index, kIndexed + 0x20, 0x10, rows, 1000);
    index.add(code_of("f", kIndexed, 0x10, 5000));
    EXPECT_EQ(index.functions(), rows + (rows == kFew ? 1 : 2));
    add_many(index, kIndexed + 0x40, 0x10, rows, 6000);
    index.move(kIndexed, kIndexed + 0x1000, 9000);
    EXPECT_EQ(index.losses().unknown_moves, rows == kFew ? 0U : 1U);
    EXPECT_EQ(name_at(index, kIndexed, 5500), "f");
  }
}

// The work is spread over the additions of the last eighth, so that none takes long.
TEST(JitCodeIndex, ForgetsBeforeItIsFullWithEachAddition) {
  constexpr std::size_t kMost = 4096;
  JitCodeIndex index({.generations = kMost, .name_bytes = std::size_t{1} << 20});
  std::size_t added = 0;
  std::size_t most = 0;
  for (; index.losses().forgotten == 0; ++added) {
    ASSERT_LT(added, kMost);
    most = index.functions();
    index.add(code_of("f", kIndexed + 0x40 * added, 0x40, added));
  }
  EXPECT_GT(most, kMost - kMost / 8 + 100);
  EXPECT_LE(index.functions(), most - kMost / 8 * 7 / 4 + 1);
  EXPECT_EQ(name_at(index, kIndexed + 0x40 * (added - 1), added), "f");
}

// Names that fill their room while the index forgets are left out, not the code: what it replaced
// must not be taken for it.
TEST(JitCodeIndex, CodeForWhichTheNamesHaveNoRoomReplacesOlderCode) {
  constexpr std::size_t kMost = 4096;
  JitCodeIndex index({.generations = kMost, .name_bytes = std::size_t{1} << 20});
  std::uint64_t time_ns = 0;
  const auto add = [&](std::string_view name, std::uint64_t place) {
    index.add(code_of(name, kIndexed + 0x40 * place, 0x40, ++time_ns));
  };
  for (std::size_t i = 0; i < kMost / 8 * 7; ++i) add("old", i);
  for (std::size_t i = 0; i < 300; ++i) add(std::string(8000, 'n'), kMost / 2 + i);
  EXPECT_GT(index.losses().forgotten, 0U);
  EXPECT_EQ(name_at(index, kIndexed + 0x40 * (kMost / 2 + 299), time_ns), kNone);
}

}  // namespace
}  // namespace profd
