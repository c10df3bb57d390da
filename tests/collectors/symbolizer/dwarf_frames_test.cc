// Frames and lines are those of llvm-symbolizer and addr2line, for programs of several compilers,
// and the limits end a request with the most important addresses answered.

#include "collectors/symbolizer/dwarf_frames.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/symbolizer/symbolizer.h"
#include "tests/collectors/symbolizer/corpus.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAddresses = 1500;

// A program and, where they are not in it, the files that its DWARF is in.
struct Program {
  const char* name;
  const char* debug_file = nullptr;
  const char* alt_file = nullptr;
  const char* oracle = nullptr;  // the same code with its DWARF, where it is not `name`
};

class Descriptors {
 public:
  explicit Descriptors(const Program& program)
      : file_(open_for_reading(corpus_path(program.name))) {
    if (program.debug_file != nullptr) debug_ = open_for_reading(corpus_path(program.debug_file));
    if (program.alt_file != nullptr) alt_ = open_for_reading(corpus_path(program.alt_file));
  }
  [[nodiscard]] DwarfFiles files() const {
    return {.file = file_.get(), .debug_file = debug_.get(), .alt_file = alt_.get()};
  }

 private:
  UniqueFd file_;
  UniqueFd debug_;
  UniqueFd alt_;
};

std::string path_for_oracle(const Program& program) {
  return corpus_path(program.oracle != nullptr ? program.oracle : program.name);
}

std::vector<DwarfAddress> answers_for(const Program& program,
                                      const std::vector<std::uint64_t>& addresses) {
  const Descriptors descriptors(program);
  Symbolizer symbolizer;
  const auto answers = symbolizer.find_frames(descriptors.files(), addresses, 4s);
  EXPECT_TRUE(answers) << answers.error().message;
  return answers ? *answers : std::vector<DwarfAddress>();
}

class OracleTest : public testing::TestWithParam<Program> {};

// Equal without exception here. Of 10,000 addresses each of profd itself and of libc, too.
TEST_P(OracleTest, FramesAndLinesAreThoseOfLlvmSymbolizer) {
  const std::string oracle = path_for_oracle(GetParam());
  const auto addresses = random_addresses(oracle, kAddresses);
  const auto answers = answers_for(GetParam(), addresses);
  EXPECT_GE(equal_share(answers, frames_of_llvm(oracle, addresses)), 0.999);
  const auto with_inlined = std::ranges::count_if(
      answers, [](const DwarfAddress& answer) { return answer.names.frames.size() > 1; });
  EXPECT_GT(with_inlined, kAddresses / 10);
}

INSTANTIATE_TEST_SUITE_P(DwarfFramesTest, OracleTest,
                         testing::Values(Program{"gcc"}, Program{"dwarf_2"}, Program{"dwarf_3"},
                                         Program{"gcc_dwarf_4"}, Program{"dwarf64"},
                                         Program{"clang"}, Program{"lto"}, Program{"two_units"},
                                         Program{"zlib"}, Program{"zdebug"},
                                         Program{"stripped", "stripped.debug", nullptr, "gcc"},
                                         Program{"dwz", nullptr, "dwz.alt", "gcc"}),
                         [](const auto& program) { return std::string(program.param.name); });

// The one answer that differs has another file there: addr2line 2.40 says words.cc:217 where
// basic_string.tcc has that line, and words.cc has 79 lines.
TEST(DwarfFramesTest, FramesAndLinesAreThoseOfAddr2line) {
  const auto addresses = random_addresses(corpus_path("gcc"), kAddresses);
  EXPECT_GE(equal_share(answers_for({"gcc"}, addresses),
                        frames_of_addr2line(corpus_path("gcc"), addresses)),
            0.999);
}

// llvm-symbolizer reads the .dwo files, which are not read here: only the lines are in the program.
TEST(DwarfFramesTest, OfSplitDwarfTheLinesAreFoundAndTheLossIsNamed) {
  const auto addresses = random_addresses(corpus_path("split"), kAddresses);
  const auto answers = answers_for({"split"}, addresses);
  const auto oracle = frames_of_llvm(corpus_path("split"), addresses);
  ASSERT_EQ(answers.size(), oracle.size());
  std::size_t split = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(as_oracle(answers[i]).front().file, oracle[i].front().file);
    EXPECT_EQ(as_oracle(answers[i]).front().line, oracle[i].front().line);
    if (answers[i].loss == DwarfLoss::kSplit) ++split;
  }
  EXPECT_GT(split, kAddresses / 2);
}

// libdw would open dwz's file itself, which lies where the program says.
TEST(DwarfFramesTest, WithoutTheFileOfDwzNamesInItAreMissingAndTheLossIsNamed) {
  const auto addresses = random_addresses(corpus_path("gcc"), kAddresses);
  const auto answers = answers_for({"dwz"}, addresses);
  EXPECT_GT(std::ranges::count(answers, DwarfLoss::kNoName, &DwarfAddress::loss), kAddresses / 2);
}

TEST(DwarfFramesTest, TheLinkToTheFileOfDwzIsFound) {
  const Descriptors dwz({"dwz"});
  Symbolizer symbolizer;
  const auto link = symbolizer.find_alt_link(dwz.files());
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_EQ(link->path, corpus_path("dwz.alt"));
  EXPECT_EQ(link->build_id.size(), 20U);
  const Descriptors as_debug_file({"stripped", "dwz"});
  EXPECT_EQ(*symbolizer.find_alt_link(as_debug_file.files()), *link);
  const Descriptors gcc({"gcc"});
  EXPECT_EQ(*symbolizer.find_alt_link(gcc.files()), AltLink());
}

TEST(DwarfFramesTest, AFunctionHasItsShownNameAndWhereItStarts) {
  const auto addresses = random_addresses(corpus_path("gcc"), kAddresses);
  for (const DwarfAddress& answer : answers_for({"gcc"}, addresses)) {
    for (const CodeFrame& frame : answer.names.frames) {
      if (frame.system_name !=
          "_ZN6corpus4rankERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE") {
        continue;
      }
      EXPECT_EQ(frame.name, "corpus::rank");
      EXPECT_EQ(frame.start_line, 57U);
      return;
    }
  }
  FAIL() << "no address is in corpus::rank()";
}

// gcc writes no linkage name for it.
TEST(DwarfFramesTest, AFunctionWithInternalLinkageIsShownWithItsNamespaces) {
  const auto addresses = random_addresses(corpus_path("gcc"), kAddresses);
  std::set<std::string> names;
  for (const DwarfAddress& answer : answers_for({"gcc"}, addresses)) {
    for (const CodeFrame& frame : answer.names.frames) {
      if (frame.system_name == "is_letter") names.insert(frame.name);
    }
  }
  EXPECT_EQ(names, std::set<std::string>{"(anonymous namespace)::is_letter"});
}

struct Refusal {
  const char* name;
  Program program;
  DwarfLoss loss;
};

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, IsNamed) {
  const std::vector<std::uint64_t> addresses = {0x1234, 0x4321};
  const auto answers = answers_for(GetParam().program, addresses);
  ASSERT_EQ(answers.size(), 2U);
  for (const DwarfAddress& answer : answers) {
    EXPECT_EQ(answer.loss, GetParam().loss) << text_of(answer.loss);
    EXPECT_FALSE(has_name(answer.names.source));
  }
}

INSTANTIATE_TEST_SUITE_P(
    DwarfFramesTest, RefusalTest,
    testing::Values(Refusal{"Zstd", {"zstd"}, DwarfLoss::kZstd},
                    Refusal{"NoDwarf", {"stripped"}, DwarfLoss::kNoDwarf},
                    Refusal{"ObjectFile", {"split.o"}, DwarfLoss::kNotExecutable},
                    Refusal{"OtherDebugFile", {"gcc", "gcc_dwarf_4"}, DwarfLoss::kOtherDebugFile}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

// Some address of each of the two units.
std::vector<std::uint64_t> one_address_of_each_unit() {
  std::vector<std::uint64_t> found(2);
  const auto addresses = random_addresses(corpus_path("gcc"), kAddresses);
  for (const DwarfAddress& answer : answers_for({"gcc"}, addresses)) {
    if (answer.names.frames.empty()) continue;
    const bool is_small = answer.names.frames.back().file.ends_with("numbers.cc");
    found[is_small ? 0 : 1] = answer.names.address;
  }
  return found;
}

std::vector<DwarfLoss> losses_with(const DwarfLimits& limits,
                                   const std::vector<std::uint64_t>& addresses) {
  const Descriptors descriptors({"gcc"});
  std::vector<DwarfLoss> losses;
  for (const DwarfAddress& answer : find_dwarf_frames(descriptors.files(), addresses, limits)) {
    losses.push_back(answer.loss);
  }
  return losses;
}

TEST(DwarfLimitsTest, TheUnitOfTheMostImportantAddressIsReadFirst) {
  const auto small_unit_first = one_address_of_each_unit();
  const std::vector<std::uint64_t> large_unit_first(small_unit_first.rbegin(),
                                                    small_unit_first.rend());
  using enum DwarfLoss;
  // numbers.cc has some hundred entries, words.cc many thousands.
  EXPECT_EQ(losses_with({.entries = 800}, small_unit_first), (std::vector{kNone, kEntries}));
  EXPECT_EQ(losses_with({.entries = 800}, large_unit_first), (std::vector{kEntries, kEntries}));
  EXPECT_EQ(losses_with({}, large_unit_first), (std::vector{kNone, kNone}));
}

TEST(DwarfLimitsTest, TimeAndAnswerAreLimited) {
  const auto addresses = one_address_of_each_unit();
  using enum DwarfLoss;
  EXPECT_EQ(losses_with({.cpu_time = 0ns}, addresses), (std::vector{kCpuTime, kCpuTime}));
  EXPECT_EQ(losses_with({.answer_bytes = 10}, addresses),
            (std::vector{kAnswerBytes, kAnswerBytes}));
}

}  // namespace
}  // namespace profd::test
