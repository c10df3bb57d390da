#include "formats/elf/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

// The budget does not limit the tests' own files, which root owns.
Result<std::vector<ElfSymbol>> symbols_at(int fd, std::span<const std::uint64_t> addresses) {
  SymbolBudget budget;
  return find_elf_symbols(fd, addresses, budget);
}

using testing::HasSubstr;

class ElfFileTest : public testing::Test {
 protected:
  // Returns the result of `read` for a file with these bytes.
  template <class Read>
  auto with_file(std::string_view bytes, const Read& read) {
    const UniqueFd fd(::open(scratch_.write("file", bytes).c_str(), O_RDONLY | O_CLOEXEC));
    return read(fd.get());
  }

  test::ScratchDirectory scratch_;
};

UniqueFd open_program(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  return fd;
}

std::vector<ElfSymbol> symbols_at(const std::string& path, std::vector<std::uint64_t> addresses) {
  const UniqueFd fd = open_program(path);
  const auto symbols = symbols_at(fd.get(), addresses);
  EXPECT_TRUE(symbols) << symbols.error().message;
  return symbols ? *symbols : std::vector<ElfSymbol>{};
}

std::string only_name_at(const std::string& path, std::uint64_t address) {
  const auto symbols = symbols_at(path, {address});
  return symbols.size() == 1 ? symbols[0].name : "";
}

TEST_F(ElfFileTest, SummarizesProgramsAsReadelfDoes) {
  for (const char* path : {STACK_PIE, STACK_NO_PIE}) {
    const UniqueFd fd = open_program(path);
    const auto summary = read_elf_summary(fd.get());
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->type, std::string(path) == STACK_PIE ? ET_DYN : ET_EXEC);
    std::istringstream lines(test::output_of(std::string("readelf -Wl ") + path));
    std::size_t loads = 0;
    for (std::string line; std::getline(lines, line);) {
      unsigned long long offset = 0, vaddr = 0, paddr = 0, file = 0, memory = 0;
      if (std::sscanf(line.c_str(), " LOAD %llx %llx %llx %llx %llx", &offset, &vaddr, &paddr,
                      &file, &memory) != 5) {
        continue;
      }
      ASSERT_LT(loads, summary->segments.size());
      const ElfSegment& segment = summary->segments[loads++];
      EXPECT_EQ(segment.offset, offset);
      EXPECT_EQ(segment.vaddr, vaddr);
      EXPECT_EQ(segment.file_bytes, file);
      EXPECT_EQ(segment.memory_bytes, memory);
    }
    EXPECT_EQ(loads, summary->segments.size());
  }
}

TEST_F(ElfFileTest, ReadsTheBuildIdThatTheLinkerWasGiven) {
  for (const char* path : {STACK_PIE, STACK_NO_PIE, STACK_STRIPPED}) {
    const UniqueFd fd = open_program(path);
    const auto summary = read_elf_summary(fd.get());
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->build_id, "\x01\x23\x45\x67\x89\xab\xcd\xef") << path;
  }
}

TEST_F(ElfFileTest, FindsTheFunctionsThatNmLists) {
  for (const char* path : {STACK_PIE, STACK_NO_PIE}) {
    auto functions = test::nm_functions(path);
    for (const char* name : {"hot_leaf", "middle", "main", "local_leaf", "far_away"}) {
      const auto symbols = symbols_at(path, {functions[name] + 1});
      ASSERT_EQ(symbols.size(), 1U) << path << " " << name;
      EXPECT_EQ(symbols[0].address, functions[name]);
      EXPECT_GT(symbols[0].bytes, 1U);
    }
  }
}

TEST_F(ElfFileTest, FindsEachFunctionOnceAndInOrder) {
  auto functions = test::nm_functions(STACK_NO_PIE);
  const std::uint64_t hot = functions["hot_leaf"];
  const auto symbols = symbols_at(
      STACK_NO_PIE, {functions["main"] + 2, hot + 3, hot, 1, hot + 3, ~std::uint64_t{0}});
  ASSERT_EQ(symbols.size(), 2U);
  EXPECT_EQ(symbols[0].address, std::min(hot, functions["main"]));
  EXPECT_EQ(symbols[1].address, std::max(hot, functions["main"]));
}

TEST_F(ElfFileTest, FindsNestedAndUnsizedFunctionsAndNoneInBetween) {
  struct Case {
    std::uint64_t offset;  // from `outer` on
    const char* name;
  };
  const std::uint64_t outer = test::nm_functions(STACK_NO_PIE)["outer"];
  std::vector<std::uint64_t> all;
  for (const Case& c : {Case{4, "outer"},
                        {20, "inner"},
                        {28, "inner"},
                        {40, "outer"},
                        {56, ""},
                        {68, "unsized"},
                        {76, "unsized"},
                        {84, "sized_after"},
                        {100, ""}}) {
    EXPECT_EQ(only_name_at(STACK_NO_PIE, outer + c.offset), c.name) << c.offset;
    all.push_back(outer + c.offset);
  }
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : symbols_at(STACK_NO_PIE, all)) names.push_back(symbol.name);
  EXPECT_THAT(names, testing::ElementsAre("outer", "inner", "unsized", "sized_after"));
  EXPECT_EQ(symbols_at(STACK_NO_PIE, {outer + 20, outer + 40}).size(), 2U) << "both";
  EXPECT_EQ(symbols_at(STACK_NO_PIE, {outer + 20, outer + 28}).size(), 1U) << "inner alone";
}

TEST_F(ElfFileTest, ReadsTheDynamicSymbolsOfAStrippedLibrary) {
  const auto functions = test::nm_functions(STACK_STRIPPED, "-D");
  ASSERT_TRUE(functions.contains("middle"));
  EXPECT_EQ(only_name_at(STACK_STRIPPED, functions.at("middle") + 1), "middle");
}

// A shared C library has sized, aliased, indirect and hand-written functions.
TEST_F(ElfFileTest, FindsEveryFunctionOfLibc) {
  const std::string libc = test::output_of(
      "ldd /bin/true | sed -n 's/.*=> *\\(.*libc.so[^ ]*\\) .*/\\1/p' | tr -d '\\n'");
  std::vector<std::uint64_t> addresses;
  for (const auto& [name, address] : test::nm_functions(libc, "-D --defined-only")) {
    addresses.push_back(address);
  }
  ASSERT_GT(addresses.size(), 1000U);
  const auto symbols = symbols_at(libc, addresses);
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  EXPECT_EQ(symbols.size(), addresses.size());
}

TEST_F(ElfFileTest, SaysWhyAFileIsRefused) {
  struct Case {
    const char* what;
    std::function<void(std::string&)> change;
    const char* message;
  };
  const std::string good = test::read_file(STACK_PIE);
  for (const Case& c : {
           Case{"empty", [](auto& f) { f.clear(); }, "not an ELF file"},
           {"text", [](auto& f) { f = "#!/bin/sh\necho this is no ELF file at all, but long\n"; },
            "not an ELF file"},
           {"cut in the header", [](auto& f) { f.resize(40); }, "cut in its header"},
           {"cut in the program headers", [](auto& f) { f.resize(100); }, "program headers"},
           {"32 bit", [](auto& f) { f[EI_CLASS] = ELFCLASS32; }, "32-bit"},
           {"big endian", [](auto& f) { f[EI_DATA] = ELFDATA2MSB; }, "big-endian"},
           {"object file", [](auto& f) { f[16] = ET_REL; }, "neither a program"},
           {"program headers of another size", [](auto& f) { f[54] = 1; }, "program headers"},
           {"65535 program headers", [](auto& f) { f[56] = f[57] = '\xff'; }, "program headers"},
           {"program headers far away", [](auto& f) { f[39] = '\x7f'; }, "program headers"},
       }) {
    std::string file = good;
    c.change(file);
    const auto summary = with_file(file, [](int fd) { return read_elf_summary(fd); });
    ASSERT_FALSE(summary) << c.what;
    EXPECT_THAT(summary.error().message, HasSubstr(c.message)) << c.what;
  }
}

TEST_F(ElfFileTest, LosesOnlySymbolsWithoutSectionHeaders) {
  std::string file = test::read_file(STACK_PIE);
  const std::uint64_t address = test::nm_functions(STACK_PIE)["main"];
  file[60] = file[61] = 0;  // e_shnum
  const auto summary = with_file(file, [](int fd) { return read_elf_summary(fd); });
  ASSERT_TRUE(summary);
  EXPECT_FALSE(summary->segments.empty());
  EXPECT_FALSE(summary->build_id.empty()) << "from the segment";
  const auto symbols =
      with_file(file, [&](int fd) { return symbols_at(fd, std::vector{address}); });
  ASSERT_TRUE(symbols);
  EXPECT_TRUE(symbols->empty());
}

// Every field of every table with the largest value.
TEST_F(ElfFileTest, SurvivesSectionHeadersWithWrongNumbers) {
  const std::string good = test::read_file(STACK_PIE);
  const std::uint64_t address = test::nm_functions(STACK_PIE)["main"];
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  for (std::size_t at = header.e_shoff; at < header.e_shoff + header.e_shnum * 64U; at += 4) {
    std::string file = good;
    std::memset(file.data() + at, 0xff, 4);
    const auto symbols =
        with_file(file, [&](int fd) { return symbols_at(fd, std::vector{address}); });
    if (symbols) {
      for (const ElfSymbol& symbol : *symbols) EXPECT_LE(symbol.name.size(), 1024U);
    } else {
      EXPECT_EQ(symbols.error().code, ErrorCode::kTooLarge);
    }
    const auto summary = with_file(file, [](int fd) { return read_elf_summary(fd); });
    ASSERT_TRUE(summary);
  }
}

// A program whose one section .symtab has `count` functions of 16 bytes from 0x10000 on, all of
// them with one name.
std::string many_functions(std::size_t count, std::size_t name_bytes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shoff = sizeof header;
  Elf64_Shdr sections[3]{};
  sections[1].sh_type = SHT_SYMTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = count * sizeof(Elf64_Sym);
  sections[1].sh_entsize = sizeof(Elf64_Sym);
  sections[1].sh_link = 2;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sections[1].sh_offset + sections[1].sh_size;
  sections[2].sh_size = name_bytes + 2;
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(sections), sizeof sections);
  for (std::size_t i = 0; i < count; ++i) {
    const Elf64_Sym symbol{1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x10000 + i * 16, 16};
    file.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  }
  return file.append(1, '\0').append(name_bytes, 'A').append(1, '\0');
}

TEST_F(ElfFileTest, CutsLongNamesAndLeavesOutFunctionsBeyondTheirLimit) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 4000; ++i) addresses.push_back(0x10000 + i * 16);
  const auto symbols =
      with_file(many_functions(4000, 4094), [&](int fd) { return symbols_at(fd, addresses); });
  ASSERT_TRUE(symbols);
  EXPECT_EQ(symbols->size(), 1024U) << "1 MiB of names of 1,024 bytes";
  EXPECT_EQ(symbols->at(0).name, std::string(1024, 'A'));
}

TEST_F(ElfFileTest, RefusesASymbolTableThatIsAHole) {
  std::string file = many_functions(1, 8);
  const std::uint64_t entries = 4'000'000;
  const std::uint64_t bytes = entries * sizeof(Elf64_Sym);
  std::memcpy(file.data() + sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size),
              &bytes, sizeof bytes);
  const auto path = scratch_.write("sparse", file);
  ASSERT_EQ(::truncate(path.c_str(), off_t{128} << 20), 0);
  const UniqueFd fd = open_program(path);
  const auto symbols = symbols_at(fd.get(), std::vector<std::uint64_t>{0x10000});
  ASSERT_FALSE(symbols);
  EXPECT_EQ(symbols.error().code, ErrorCode::kTooLarge);
}

TEST_F(ElfFileTest, ChargesTheSymbolsOfFilesThatRootDoesNotOwn) {
  ASSERT_EQ(::geteuid(), 0U) << "run as root: only root can give files away";
  const auto path = scratch_.write("file", many_functions(1000, 8));
  const std::vector<std::uint64_t> address{0x10000};
  const UniqueFd fd = open_program(path);
  SymbolBudget budget{.table_bytes = 30'000, .time = std::chrono::hours(1)};
  ASSERT_EQ(::fchown(fd.get(), 0, 0), 0);
  ASSERT_TRUE(find_elf_symbols(fd.get(), address, budget));
  EXPECT_EQ(budget.table_bytes, 30'000U) << "root's own";
  ASSERT_EQ(::fchown(fd.get(), 65534, 65534), 0);
  ASSERT_TRUE(find_elf_symbols(fd.get(), address, budget));
  EXPECT_EQ(budget.table_bytes, 6'000U) << "1,000 symbols of 24 bytes";
  EXPECT_LT(budget.time, std::chrono::hours(1));
  EXPECT_EQ(find_elf_symbols(fd.get(), address, budget).error().code, ErrorCode::kTooLarge);
  budget = {.table_bytes = 30'000, .time = std::chrono::seconds(0)};
  EXPECT_EQ(find_elf_symbols(fd.get(), address, budget).error().code, ErrorCode::kTooLarge);
}

TEST_F(ElfFileTest, RefusesAFileThatIsTooLarge) {
  const auto path = scratch_.write("sparse", test::read_file(STACK_PIE));
  ASSERT_EQ(::truncate(path.c_str(), (off_t{4} << 30) + 1), 0);
  const UniqueFd fd = open_program(path);
  EXPECT_EQ(read_elf_summary(fd.get()).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(symbols_at(fd.get(), {}).error().code, ErrorCode::kTooLarge);
}

TEST(VaddrOfOffset, GivesTheAddressThatASegmentLoadsTheOffsetAt) {
  ElfSummary elf;
  elf.segments = {{0x0, 0x400000, 0x1000, 0x1000, 0x1000, PF_R},
                  {0x1000, 0x403000, 0x800, 0x2000, 0x1000, PF_R | PF_X}};
  EXPECT_EQ(*vaddr_of_offset(elf, 0xfff), 0x400fffU);
  EXPECT_EQ(*vaddr_of_offset(elf, 0x1000), 0x403000U);
  EXPECT_EQ(*vaddr_of_offset(elf, 0x17ff), 0x4037ffU);
  EXPECT_FALSE(vaddr_of_offset(elf, 0x1800)) << "no bytes of the file";
  EXPECT_FALSE(vaddr_of_offset(elf, ~std::uint64_t{0}));
}

TEST_F(ElfFileTest, ListsTheFunctionsOfTablesUpToALimit) {
  const auto listed = [this](std::size_t count) {
    return with_file(many_functions(count, 1), [](int fd) { return list_elf_functions(fd); });
  };
  EXPECT_TRUE(listed(200'000));
  const auto refused = listed(200'001);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
}

// The program with other program headers behind its end, and without sections.
std::string with_program_headers(std::string file, const std::vector<Elf64_Phdr>& headers) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  header.e_phoff = file.size();
  header.e_phnum = static_cast<Elf64_Half>(headers.size());
  header.e_shnum = 0;
  std::memcpy(file.data(), &header, sizeof header);
  return file.append(reinterpret_cast<const char*>(headers.data()),
                     headers.size() * sizeof(Elf64_Phdr));
}

TEST_F(ElfFileTest, ReadsSegmentsUpToALimit) {
  const std::string program = test::read_file(STACK_PIE);
  const auto summary = [&](std::size_t count) {
    return with_file(with_program_headers(program, std::vector<Elf64_Phdr>(count)),
                     [](int fd) { return read_elf_summary(fd); });
  };
  EXPECT_TRUE(summary(1024));
  const auto refused = summary(1025);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("program headers"));
}

TEST_F(ElfFileTest, ReadsBuildIdsUpToALimit) {
  const auto build_id_of = [this](std::uint32_t bytes) {
    std::string file = test::read_file(STACK_PIE);
    file.resize((file.size() + 3) / 4 * 4);
    const Elf64_Nhdr note{.n_namesz = 4, .n_descsz = bytes, .n_type = NT_GNU_BUILD_ID};
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = file.size();
    segment.p_align = 4;
    file.append(reinterpret_cast<const char*>(&note), sizeof note).append("GNU\0", 4);
    file.append(bytes, 'b').resize((file.size() + 3) / 4 * 4);
    segment.p_filesz = file.size() - segment.p_offset;
    return with_file(with_program_headers(file, {segment}),
                     [](int fd) { return read_elf_summary(fd).value().build_id; });
  };
  EXPECT_EQ(build_id_of(64), std::string(64, 'b'));
  EXPECT_EQ(build_id_of(65), "");
}

}  // namespace
}  // namespace profd
