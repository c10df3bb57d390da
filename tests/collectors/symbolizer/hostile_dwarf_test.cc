// Files that no compiler writes: the symbolizer answers with a loss, at a bounded cost, and the
// next request is answered.

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/symbolizer/symbolizer.h"
#include "formats/base/whole_file.h"
#include "tests/collectors/symbolizer/corpus.h"
#include "tests/collectors/symbolizer/dwarf_writer.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kAddress = kCodeStart + 0x10;

UniqueFd file_with(std::string_view bytes) {
  UniqueFd file(::memfd_create("profd_hostile", MFD_CLOEXEC));
  EXPECT_TRUE(write_all(file.get(), bytes));
  return file;
}

// The entries of a function at kAddress, with the entries in it.
std::string function_with(std::string_view entries) {
  Bytes function;
  function.add(Entry::kFunction).string("outer");
  return add_range(function).raw(entries).u8(0).text();
}

class HostileDwarfTest : public testing::Test {
 protected:
  // Also that the next request, for a good file, is answered.
  DwarfAddress answer_for(int file, std::chrono::nanoseconds cpu_time = 1500ms) {
    const std::vector<std::uint64_t> address = {kAddress};
    const auto answers = symbolizer.find_frames({.file = file}, address, cpu_time);
    EXPECT_TRUE(answers) << answers.error().message;
    if (!answers) return {};
    EXPECT_EQ(answers->size(), 1U);
    expect_good_answer();
    return answers->front();
  }
  DwarfAddress answer_for(std::string_view bytes) { return answer_for(file_with(bytes).get()); }

  void expect_good_answer() {
    const auto good = symbolizer.find_frames({.file = good_file.get()}, good_addresses, 1500ms);
    ASSERT_TRUE(good) << good.error().message;
    EXPECT_EQ(good->front().loss, DwarfLoss::kNone) << text_of(good->front().loss);
    EXPECT_EQ(good->front().names.frames.size(), 2U);
  }

  Symbolizer symbolizer;
  UniqueFd good_file =
      file_with(dwarf_with(function_with(good_entries()),
                           lines_of_program(start_of_program() + "\x14" + end_of_program())));
  std::vector<std::uint64_t> good_addresses = {kAddress};

 private:
  static std::string good_entries() {
    Bytes inlined;
    inlined.add(Entry::kInlined).u32(kFirstEntry);
    return add_range(inlined).u8(0).text();
  }
};

TEST_F(HostileDwarfTest, DeepNestingIsCut) {
  std::string blocks;
  for (int i = 0; i < 100'000; ++i) {
    Bytes block;
    blocks += add_range(block.add(Entry::kBlock)).text();
  }
  const DwarfAddress answer =
      answer_for(dwarf_with(function_with(blocks + std::string(100'000, '\0')), {}));
  EXPECT_EQ(answer.loss, DwarfLoss::kTooDeep);
  ASSERT_EQ(answer.names.frames.size(), 1U);
  EXPECT_EQ(answer.names.frames.front().name, "outer");
}

TEST_F(HostileDwarfTest, ASiblingThatIsNotBehindItsEntryEndsTheList) {
  for (const std::uint32_t sibling : {kFirstEntry, kFirstEntry - 1, 0U, 0xffffffffU}) {
    Bytes entries;
    entries.add(Entry::kWithSibling).u32(sibling).string("cycle").u8(0);
    const DwarfAddress answer = answer_for(dwarf_with(entries.text() + function_with({}), {}));
    EXPECT_EQ(answer.loss, DwarfLoss::kNoFunction);
  }
}

TEST_F(HostileDwarfTest, AnEntryThatIsItsOwnOriginHasNoName) {
  const std::uint32_t inlined =
      kFirstEntry + static_cast<std::uint32_t>(function_with({}).size()) - 1;
  Bytes entries;
  entries.add(Entry::kInlined).u32(inlined);
  const DwarfAddress answer =
      answer_for(dwarf_with(function_with(add_range(entries).u8(0).text()), {}));
  EXPECT_EQ(answer.loss, DwarfLoss::kNoName);
}

TEST_F(HostileDwarfTest, EntriesAreLimited) {
  const std::string entries(6'000'000, static_cast<char>(Entry::kEmpty));
  EXPECT_EQ(answer_for(dwarf_with(entries, {})).loss, DwarfLoss::kEntries);
}

TEST_F(HostileDwarfTest, AnAbbreviationCodeOfManyBytesEndsTheUnit) {
  EXPECT_EQ(answer_for(dwarf_with(std::string(1'000'000, '\xff'), {})).loss,
            DwarfLoss::kNoFunction);
}

TEST_F(HostileDwarfTest, ALineProgramOfManyRowsEndsWithTheTime) {
  const std::string rows = lines_of_program(start_of_program() + std::string(64 << 20, '\x14'));
  const UniqueFd file = file_with(dwarf_with(function_with({}), rows));
  EXPECT_EQ(answer_for(file.get(), 20ms).loss, DwarfLoss::kCpuTime);
  EXPECT_EQ(symbolizer.failures(), 0U);
}

TEST_F(HostileDwarfTest, ALineProgramThatDividesByZeroHasNoLines) {
  const std::string program = start_of_program() + "\x14\x08" + end_of_program();
  const DwarfAddress good = answer_for(dwarf_with(function_with({}), lines_of_program(program)));
  ASSERT_EQ(good.names.frames.size(), 1U);
  EXPECT_EQ(good.names.frames.front().file, "file.cc");
  EXPECT_NE(good.names.frames.front().line, 0U);
  const DwarfAddress answer =
      answer_for(dwarf_with(function_with({}), lines_of_program(program, 0)));
  EXPECT_EQ(answer.loss, DwarfLoss::kNoLines);
}

// Each would take memory, and the time to find its text.
TEST_F(HostileDwarfTest, TheFilesOfALineTableAreLimited) {
  constexpr std::size_t kLimit = 65'536;
  const std::string program = start_of_program() + "\x14" + end_of_program();
  const auto loss_of = [&](const std::string& lines) {
    const DwarfAddress answer = answer_for(dwarf_with(function_with({}), lines));
    EXPECT_EQ(answer.names.frames.size(), 1U);
    return answer.loss;
  };
  EXPECT_EQ(loss_of(lines_of_program_5(program, kLimit)), DwarfLoss::kNone);
  EXPECT_EQ(loss_of(lines_of_program_5(program, kLimit + 1)), DwarfLoss::kNoLines);
  // Before DWARF 5 there is no file 0, which counts all the same.
  EXPECT_EQ(loss_of(lines_of_program(program, 14, kLimit - 1)), DwarfLoss::kNone);
  EXPECT_EQ(loss_of(lines_of_program(program, 14, kLimit)), DwarfLoss::kNoLines);
}

TEST_F(HostileDwarfTest, SectionsThatAreHugeOnceDecompressedAreRefused) {
  const Elf64_Chdr compression{
      .ch_type = ELFCOMPRESS_ZLIB, .ch_reserved = 0, .ch_size = 1ULL << 40, .ch_addralign = 1};
  const std::string bytes(reinterpret_cast<const char*>(&compression), sizeof compression);
  EXPECT_EQ(answer_for(elf_with({{.name = ".debug_info",
                                  .bytes = bytes + std::string(100, 'x'),
                                  .flags = SHF_COMPRESSED}}))
                .loss,
            DwarfLoss::kTooLarge);
  const std::string zdebug = std::string("ZLIB") + std::string(8, '\x7f') + std::string(100, 'x');
  EXPECT_EQ(answer_for(elf_with({{.name = ".zdebug_info", .bytes = zdebug}})).loss,
            DwarfLoss::kTooLarge);
}

// libdw decompresses each section that it knows. The sum of two sizes may exceed 64 bits.
TEST_F(HostileDwarfTest, TheSizesOfAllSectionsThatAreDecompressedCount) {
  const auto section_of = [](const char* name, std::uint64_t decompressed_bytes) {
    const Elf64_Chdr compression{.ch_type = ELFCOMPRESS_ZLIB,
                                 .ch_reserved = 0,
                                 .ch_size = decompressed_bytes,
                                 .ch_addralign = 1};
    const std::string bytes(reinterpret_cast<const char*>(&compression), sizeof compression);
    return Section{.name = name, .bytes = bytes + std::string(100, 'x'), .flags = SHF_COMPRESSED};
  };
  const auto loss_of = [this](const std::vector<Section>& sections) {
    return answer_for(elf_with(sections)).loss;
  };
  EXPECT_EQ(loss_of({section_of(".debug_info", 4096), section_of(".debug_line", 0ULL - 4096)}),
            DwarfLoss::kTooLarge);
  for (const char* name : {".gnu_debugaltlink", ".gnu.debuglto_.debug_info"}) {
    EXPECT_EQ(loss_of({section_of(".debug_info", 4096), section_of(name, 1ULL << 40)}),
              DwarfLoss::kTooLarge)
        << name;
  }
}

// The content is not compressed, so nothing is decompressed in either case.
TEST_F(HostileDwarfTest, OfFilesOfUsersLessIsDecompressed) {
  const Elf64_Chdr compression{
      .ch_type = ELFCOMPRESS_ZLIB, .ch_reserved = 0, .ch_size = 300 << 20, .ch_addralign = 1};
  const std::string bytes(reinterpret_cast<const char*>(&compression), sizeof compression);
  const UniqueFd file = file_with(elf_with(
      {{.name = ".debug_info", .bytes = bytes + std::string(100, 'x'), .flags = SHF_COMPRESSED}}));
  EXPECT_NE(answer_for(file.get()).loss, DwarfLoss::kTooLarge);
  Symbolizer for_users({}, user_symbolizer());
  const std::vector<std::uint64_t> address = {kAddress};
  const auto answers = for_users.find_frames({.file = file.get()}, address, 1500ms);
  ASSERT_TRUE(answers) << answers.error().message;
  EXPECT_EQ(answers->front().loss, DwarfLoss::kTooLarge);
}

TEST_F(HostileDwarfTest, FilesThatAreNoElfFilesOrTooLargeAreRefused) {
  EXPECT_EQ(answer_for("text").loss, DwarfLoss::kMalformed);
  EXPECT_EQ(answer_for("").loss, DwarfLoss::kMalformed);
  const UniqueFd large = file_with(
      "\x7f"
      "ELF");
  ASSERT_EQ(::ftruncate(large.get(), (off_t{4} << 30) + 1), 0);
  EXPECT_EQ(answer_for(large.get()).loss, DwarfLoss::kTooLarge);
}

// Bytes of a good file are changed and its end is cut. Whatever becomes of the child, each request
// is answered.
TEST_F(HostileDwarfTest, AnyMutationOfAProgramIsAnswered) {
  const std::string program = *read_whole_file(corpus_path("gcc"));
  const auto addresses = random_addresses(corpus_path("gcc"), 50);
  std::mt19937_64 random(1);  // NOLINT: the same every time
  for (int round = 0; round < 60; ++round) {
    std::string mutated = program;
    for (int i = 0; i < 100; ++i) mutated[random() % mutated.size()] = static_cast<char>(random());
    if (round % 2 == 0) mutated.resize(random() % mutated.size());
    const UniqueFd file = file_with(mutated);
    const auto answers = symbolizer.find_frames({.file = file.get()}, addresses, 1500ms);
    ASSERT_TRUE(answers) << answers.error().message;
    EXPECT_EQ(answers->size(), addresses.size());
  }
  expect_good_answer();
}

std::chrono::nanoseconds cpu_time_of(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The child is in the walk over the entries when the file gets shorter: SIGBUS.
TEST_F(HostileDwarfTest, AFileThatIsCutWhileItIsReadIsAFault) {
  const std::string entries(5'000'000, static_cast<char>(Entry::kEmpty));
  const UniqueFd file = file_with(dwarf_with(entries, {}));
  expect_good_answer();
  const pid_t child = symbolizer.child();
  const auto before = cpu_time_of(child);
  std::thread cutter([&] {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (cpu_time_of(child) < before + 20ms && std::chrono::steady_clock::now() < end) {
    }
    EXPECT_EQ(::ftruncate(file.get(), 4096), 0);
  });
  const DwarfAddress answer = answer_for(file.get());
  cutter.join();
  EXPECT_EQ(answer.loss, DwarfLoss::kFault) << text_of(answer.loss);
  EXPECT_NE(symbolizer.child(), child);
  EXPECT_EQ(symbolizer.failures(), 1U);
}

}  // namespace
}  // namespace profd::test
