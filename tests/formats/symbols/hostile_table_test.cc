// Tables of symbols that no linker writes.

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/symbols/find_code_names.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using test::frames_text;
using test::names_of;
using test::text_at;

// A file of one section of code, from 0x1000 on, and a table of symbols that a test writes.
class TableFile {
 public:
  static constexpr std::uint64_t kCode = 0x1000;

  explicit TableFile(std::uint64_t symbols) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG "\2\1\1", 7);
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_shoff = 64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    put(0, header);
    Elf64_Shdr code{};
    code.sh_type = SHT_PROGBITS;
    code.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    code.sh_addr = kCode;
    code.sh_size = 0x100000;
    put(64 + sizeof code, code);
    Elf64_Shdr strings{};
    strings.sh_type = SHT_STRTAB;
    strings.sh_offset = 0x800;
    strings.sh_size = 16;
    put(64 + 2 * sizeof code, strings);
    Elf64_Shdr table{};
    table.sh_type = SHT_SYMTAB;
    table.sh_offset = kTable;
    table.sh_size = symbols * sizeof(Elf64_Sym);
    table.sh_entsize = sizeof(Elf64_Sym);
    table.sh_link = 2;
    put(64 + 3 * sizeof code, table);
    put(0x801, std::array{'w', 'i', 'd', 'e'});
    EXPECT_EQ(::truncate(path_.c_str(), static_cast<off_t>(kTable + table.sh_size)), 0);
  }

  static Elf64_Sym symbol(std::uint64_t start, std::uint64_t bytes) {
    Elf64_Sym symbol{};
    symbol.st_name = 1;
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = start;
    symbol.st_size = bytes;
    return symbol;
  }
  void set_symbols(std::uint64_t first, std::span<const Elf64_Sym> symbols) {
    put_bytes(kTable + first * sizeof(Elf64_Sym), symbols.data(), symbols.size_bytes());
  }
  void set_symbol(std::uint64_t index, std::uint64_t start, std::uint64_t bytes) {
    set_symbols(index, std::array{symbol(start, bytes)});
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static constexpr std::uint64_t kTable = 0x1000;

  template <class T>
  void put(std::uint64_t at, const T& value) {
    put_bytes(at, &value, sizeof value);
  }
  void put_bytes(std::uint64_t at, const void* data, std::size_t bytes) {
    EXPECT_EQ(::pwrite(fd_.get(), data, bytes, static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes));
  }

  test::ScratchDirectory scratch_;
  std::string path_ = scratch_.path() / "table";
  UniqueFd fd_{::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
};

// 1,000,000 symbols, of which each contains each address.
TEST(HostileTableTest, AHostileTableCostsABoundedTime) {
  constexpr std::uint64_t kCount = 1'000'000;
  TableFile file(kCount);
  std::vector<Elf64_Sym> symbols;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    symbols.push_back(TableFile::symbol(TableFile::kCode, ~i));  // beyond the address space
  }
  file.set_symbols(0, symbols);
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < kMaxNamedAddresses; ++i) addresses.push_back(TableFile::kCode + i);
  const auto started = std::chrono::steady_clock::now();
  const auto names = names_of(file.path(), addresses);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(2));
  EXPECT_EQ(frames_text(names.at(0)), "wide (symtab)");
}

// A symbol that is not read may end one without a size, and may contain an address without a name.
TEST(HostileTableTest, ATableThatIsReadInPartNamesNothingThatItsRestCouldChange) {
  for (const std::uint64_t count : {std::uint64_t{4'000'000}, std::uint64_t{4'000'001}}) {
    TableFile file(count);
    const bool is_whole = count == 4'000'000;
    file.set_symbol(1, TableFile::kCode, 0);
    file.set_symbol(2, TableFile::kCode + 0x400, 0x10);
    file.set_symbol(count - 1, TableFile::kCode + 0x100, 0x10);
    EXPECT_EQ(text_at(file.path(), TableFile::kCode + 0x80),
              is_whole ? "wide (symtab)" : "(refused)");
    EXPECT_EQ(text_at(file.path(), TableFile::kCode + 0x120), is_whole ? "(gap)" : "(refused)");
    EXPECT_EQ(text_at(file.path(), TableFile::kCode + 0x408), "wide (symtab)");
  }
}

}  // namespace
}  // namespace profd
