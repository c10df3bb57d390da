#include "formats/symbols/find_code_names.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/symbols/demangle.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

using test::BuiltCode;
using test::frames_text;
using test::list_code;
using test::name_of;
using test::names_of;
using test::text_at;

// Functions of 64 bytes each, from the symbol `start` on.
constexpr const char* kShapes = R"(
  .macro function name bytes
  .type \name, @function
  .size \name, \bytes
  \name:
  .endm
  .text
  .p2align 6
  .globl start, global_alias
  function start 64
    .skip 16, 0x90
  function inner 16
    .skip 8, 0x90
  label_in_sized:
    .skip 40, 0x90
  .weak weak_alias
  function local_alias 64
  function weak_alias 64
  function global_alias 64
  function second_global_alias 64
    .skip 64, 0x90
  function gap_before_end 8
    .skip 32, 0x90
  unsized:
    .skip 24, 0x90
  .type marker, @object
  marker:
    .skip 8, 0x90
  last:
    .skip 8192, 0x90
  .section .text.other, "ax"
  other_section:
    .skip 16, 0x90
  .data
  data_label: .quad 0
)";

std::uint64_t address_of(const std::string& path, const std::string& name,
                         const std::string& options = "") {
  for (const auto& symbol : list_code(path, options)) {
    if (symbol.name == name) return symbol.start;
  }
  ADD_FAILURE() << path << " has no " << name;
  return 0;
}

class FindCodeNamesTest : public testing::Test {
 protected:
  std::string shapes() {
    return built_.build("shapes", kShapes, "gcc -shared -nostdlib -Wl,-z,noseparate-code", "s");
  }
  BuiltCode built_;
};

TEST_F(FindCodeNamesTest, ANameEndsWhereItsSymbolEnds) {
  const std::string path = shapes();
  const std::uint64_t start = address_of(path, "start");
  struct Case {
    std::uint64_t offset;
    const char* expected;
  };
  for (const Case& c : {Case{0, "start (symtab)"},
                        {15, "start (symtab)"},
                        {16, "inner (symtab)"},
                        {25, "inner (symtab)"},  // a label without a size does not end it
                        {32, "start (symtab)"},
                        {63, "start (symtab)"},
                        {64, "global_alias (symtab)"},
                        {127, "global_alias (symtab)"},
                        {128, "gap_before_end (symtab)"},
                        {135, "gap_before_end (symtab)"},
                        {136, "(gap)"},
                        {159, "(gap)"},
                        {160, "unsized (symtab)"},
                        {183, "unsized (symtab)"},
                        {184, "(gap)"},  // an object's symbol ends it
                        {192, "last (symtab)"},
                        {192 + 4095, "last (symtab)"},
                        {192 + 4096, "(gap)"}}) {
    EXPECT_EQ(text_at(path, start + c.offset), c.expected) << c.offset;
  }
  EXPECT_EQ(text_at(path, address_of(path, "other_section") + 15), "other_section (symtab)");
  EXPECT_EQ(text_at(path, address_of(path, "other_section") + 16), "(gap)") << "the section's end";
}

TEST_F(FindCodeNamesTest, AnswersAreInTheOrderOfTheAddresses) {
  const std::string path = shapes();
  const std::uint64_t start = address_of(path, "start");
  const std::vector<std::uint64_t> addresses = {~std::uint64_t{0}, start + 70, start, 0,
                                                start + 70,        start + 20};
  const auto names = names_of(path, addresses);
  ASSERT_EQ(names.size(), addresses.size());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i].address, addresses[i]);
    texts.push_back(frames_text(names[i]));
  }
  EXPECT_THAT(texts, testing::ElementsAre("(gap)", "global_alias (symtab)", "start (symtab)",
                                          "(gap)", "global_alias (symtab)", "inner (symtab)"));
  EXPECT_TRUE(names_of(path, {}).empty());
}

// Without .symtab what follows an exported function without a size is usually another function.
TEST_F(FindCodeNamesTest, AnExportedSymbolWithoutSizeNamesItsAddressAlone) {
  const std::string path =
      built_.build("exports",
                   ".globl unsized, sized\n.type unsized,@function\nunsized: .skip 64, 0x90\n"
                   ".type sized,@function\n.size sized, 16\nsized: .skip 64, 0x90\n",
                   "gcc -shared -nostdlib -s", "s");
  const std::uint64_t unsized = address_of(path, "unsized", "-D");
  EXPECT_EQ(text_at(path, unsized), "unsized (dynsym)");
  EXPECT_EQ(text_at(path, unsized + 1), "(gap)");
  EXPECT_EQ(text_at(path, unsized + 64 + 15), "sized (dynsym)");
  EXPECT_EQ(text_at(path, unsized + 64 + 16), "(gap)");
}

constexpr const char* kProgram = R"(
  __attribute__((noinline)) static int local(int x) { return x * 3 + 1; }
  __attribute__((noinline)) int exported(int x) { return local(x) - 7; }
  int main(int argc, char** argv) { return exported(argc); }
)";

TEST_F(FindCodeNamesTest, TheDebugFileNamesWhatWasStripped) {
  const std::string path =
      built_.build("program", kProgram, "gcc -O1 -g -rdynamic -Wl,--build-id=0x01020304");
  const std::uint64_t local = address_of(path, "local");
  const std::uint64_t exported = address_of(path, "exported");
  built_.run("objcopy --only-keep-debug program program.debug && strip -o stripped program");
  const std::string stripped = built_.path("stripped");
  EXPECT_EQ(text_at(path, local), "local (symtab)");
  EXPECT_EQ(text_at(stripped, local), "(gap)");
  EXPECT_EQ(text_at(stripped, exported), "exported (dynsym)");
  EXPECT_EQ(text_at(stripped, local, built_.path("program.debug")), "local (debug_file)");
  EXPECT_EQ(text_at(stripped, exported, built_.path("program.debug")), "exported (debug_file)");
}

TEST_F(FindCodeNamesTest, AnotherFilesDebugFileIsIgnored) {
  const std::string path =
      built_.build("program", kProgram, "gcc -O1 -s -rdynamic -Wl,--build-id=0x01020304");
  built_.build("other", std::string("int other(void) { return 1; }") + kProgram,
               "gcc -O1 -Wl,--build-id=0x01020305");
  const std::uint64_t exported = address_of(path, "exported", "-D");
  EXPECT_EQ(text_at(path, exported, built_.path("other")), "exported (dynsym)");
  EXPECT_EQ(text_at(path, exported, "/etc/passwd"), "exported (dynsym)");
}

TEST_F(FindCodeNamesTest, AFileWithoutAnySymbolsSaysSo) {
  const std::string path = built_.build("bare", ".globl _start\n_start: .skip 64, 0x90\n",
                                        "gcc -static -nostdlib -s", "s");
  EXPECT_EQ(text_at(path, 0x401000), "(no_symbols)");
}

TEST_F(FindCodeNamesTest, PartsOfFunctionsHaveTheFunctionsName) {
  const std::string path = built_.build("cold", R"(
    #include <stdlib.h>
    __attribute__((cold, noinline)) void report(int x) { if (x != 1) abort(); }
    __attribute__((noinline)) int hot(int x) { if (x < 0) { report(x); exit(x); } return x; }
    int main(int argc, char** argv) { return hot(argc); }
  )",
                                        "gcc -O2");
  const std::uint64_t cold = address_of(path, "hot.cold");
  const auto names = name_of(path, cold);
  EXPECT_EQ(frames_text(names), "hot (symtab)");
  EXPECT_EQ(names.frames.at(0).system_name, "hot.cold");
}

TEST_F(FindCodeNamesTest, AnIndirectFunctionIsItsResolver) {
  const std::string path = built_.build("ifunc", R"(
    static int one(void) { return 1; }
    static int (*choose(void))(void) { return one; }
    int chosen(void) __attribute__((ifunc("choose")));
    int main(void) { return chosen(); }
  )",
                                        "gcc -O1");
  EXPECT_EQ(address_of(path, "chosen"), address_of(path, "choose"));
  EXPECT_EQ(text_at(path, address_of(path, "chosen")), "chosen (symtab)");
  EXPECT_EQ(text_at(path, address_of(path, "one")), "one (symtab)");
}

TEST_F(FindCodeNamesTest, FoldedFunctionsAreMarkedAndAliasesAreNot) {
  const std::string path =
      built_.build("folded", R"(
    extern "C" {
      int c_first(int x) { return x * 5 + 3; }
      int c_second(int x) { return x * 5 + 3; }
      int __original(int x) { return x * 6 + 4; }
      int original(int x) __attribute__((alias("__original")));
      int strong(int x) { return x * 7 + 5; }
      int another_name(int x) __attribute__((weak, alias("strong")));
      int only(int x) { return x * 8 + 6; }
    }
    struct Holder { int value; __attribute__((noinline)) Holder(int x) : value(x * 9) {} };
    template <class T> __attribute__((noinline)) T* same(T* x) { return x + 1; }
    int main(int argc, char**) {
      Holder holder(argc);
      unsigned number = 1;
      return c_first(argc) + c_second(argc) + original(argc) + another_name(argc) + only(argc) +
             holder.value + *same(&argc) + static_cast<int>(*same(&number));
    }
  )",
                   "g++ -O1 -fno-ipa-icf -ffunction-sections -fuse-ld=gold -Wl,--icf=all", "cc");
  const auto is_folded = [&path](const std::string& name) {
    return name_of(path, address_of(path, name)).is_folded;
  };
  ASSERT_EQ(address_of(path, "c_first"), address_of(path, "c_second"));
  ASSERT_EQ(address_of(path, "_Z4sameIiEPT_S1_"), address_of(path, "_Z4sameIjEPT_S1_"));
  ASSERT_EQ(address_of(path, "_ZN6HolderC1Ei"), address_of(path, "_ZN6HolderC2Ei"));
  EXPECT_TRUE(is_folded("c_first"));
  EXPECT_TRUE(is_folded("_Z4sameIiEPT_S1_"));
  EXPECT_FALSE(is_folded("original"));
  EXPECT_FALSE(is_folded("strong"));
  EXPECT_FALSE(is_folded("only"));
  EXPECT_FALSE(is_folded("_ZN6HolderC1Ei"));
}

TEST_F(FindCodeNamesTest, LongMangledNamesAreDemangledBeforeTheyAreCut) {
  std::string deep = "Leaf";
  for (int i = 0; i < 400; ++i) deep = "Box<" + deep + ">";
  const std::string path =
      built_.build("long",
                   "struct Leaf {}; template <class T> struct Box {};\n"
                   "template <class T> __attribute__((noinline)) int work(T*) { return 1; }\n"
                   "int main() { return work((" +
                       deep + "*)nullptr); }\n",
                   "g++ -O1", "cc");
  for (const auto& symbol : list_code(path)) {
    if (!symbol.name.starts_with("_Z4workI")) continue;
    ASSERT_GT(symbol.name.size(), 1024U);
    const auto names = name_of(path, symbol.start);
    ASSERT_EQ(names.frames.size(), 1U);
    EXPECT_TRUE(names.frames[0].name.starts_with("work<Box<Box<")) << names.frames[0].name;
    EXPECT_LE(names.frames[0].system_name.size(), kMaxCodeNameBytes);
    return;
  }
  FAIL() << "there is no such function";
}

// The name of an address and the symbols that nm lists around it.
class Listing {
 public:
  explicit Listing(const std::string& path) : symbols_(list_code(path)) {
    const auto exported = list_code(path, "-D");
    symbols_.insert(symbols_.end(), exported.begin(), exported.end());
  }

  // Whether a symbol of that name contains the address, or has no size and starts near it.
  [[nodiscard]] bool is_true(const AddressNames& names) const {
    const std::string& name = names.frames.at(0).system_name;
    return std::ranges::any_of(symbols_, [&](const test::ListedSymbol& symbol) {
      const std::uint64_t bytes = symbol.bytes == 0 ? 4096 : symbol.bytes;
      return symbol.start <= names.address && names.address - symbol.start < bytes &&
             valid_utf8(symbol.name, kMaxCodeNameBytes) == name.substr(0, name.find('@'));
    });
  }

  [[nodiscard]] const std::vector<test::ListedSymbol>& symbols() const { return symbols_; }

 private:
  std::vector<test::ListedSymbol> symbols_;
};

std::vector<std::string> system_files() {
  std::vector<std::string> files;
  for (const char* directory : {"/usr/bin", "/usr/lib/x86_64-linux-gnu"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string path = entry.path();
      const bool is_file = entry.is_regular_file() && entry.file_size() < 16'000'000;
      if (is_file && test::read_file(path).starts_with("\x7f"
                                                       "ELF"))
        files.push_back(path);
    }
  }
  std::ranges::sort(files);
  std::mt19937 random(1);  // NOLINT: the same files every time
  std::ranges::shuffle(files, random);
  files.resize(std::min<std::size_t>(files.size(), 25));
  return files;
}

TEST_F(FindCodeNamesTest, NoAddressOfTheSystemHasANameWhoseSymbolDoesNotContainIt) {
  std::mt19937_64 random(7);  // NOLINT: the same addresses every time
  std::size_t named = 0;
  for (const std::string& path : system_files()) {
    if (test::output_of("file -b " + path).find("x86-64") == std::string::npos) continue;
    const Listing listing(path);
    std::vector<std::uint64_t> addresses;
    for (int i = 0; i < 300 && !listing.symbols().empty(); ++i) {
      const auto& symbol = listing.symbols()[random() % listing.symbols().size()];
      addresses.push_back(symbol.start + random() % (symbol.bytes + 64));
    }
    for (const AddressNames& names : names_of(path, addresses)) {
      const bool is_symbol =
          names.source == NameSource::kSymbolTable || names.source == NameSource::kDynamicSymbols;
      if (!is_symbol) continue;
      EXPECT_TRUE(listing.is_true(names))
          << path << " " << std::hex << names.address << " " << names.frames.at(0).system_name;
      ++named;
    }
  }
  EXPECT_GT(named, 1000U);
}

TEST_F(FindCodeNamesTest, EveryAddressInAFunctionThatNmListsHasAName) {
  for (const std::string& path : {std::filesystem::read_symlink("/proc/self/exe").string(),
                                  std::string("/lib/x86_64-linux-gnu/libstdc++.so.6")}) {
    for (const char* options : {"", "-D"}) {
      auto symbols = list_code(path, options);
      std::erase_if(symbols, [](const auto& symbol) { return symbol.bytes == 0; });
      if (symbols.size() > 5000) symbols.resize(5000);
      std::vector<std::uint64_t> addresses;
      for (const auto& symbol : symbols) addresses.push_back(symbol.start + symbol.bytes - 1);
      for (const AddressNames& names : names_of(path, addresses)) {
        EXPECT_TRUE(has_name(names.source)) << path << " " << std::hex << names.address;
      }
    }
  }
}

TEST_F(FindCodeNamesTest, TheBudgetLimitsFilesThatRootDoesNotOwn) {
  const std::string path = built_.build("program", kProgram, "gcc -O1");
  const std::vector<std::uint64_t> address = {address_of(path, "local")};
  const UniqueFd fd = test::open_file(path);
  SymbolBudget budget{.table_bytes = 1000, .time = std::chrono::hours(1)};
  auto names = find_code_names(fd.get(), -1, address, budget);
  ASSERT_TRUE(names);
  EXPECT_EQ(frames_text(names->at(0)), "local (symtab)") << "root's";
  EXPECT_EQ(budget.table_bytes, 1000U);
  ASSERT_EQ(::fchown(fd.get(), 65534, 65534), 0);
  names = find_code_names(fd.get(), -1, address, budget);
  ASSERT_TRUE(names);
  EXPECT_EQ(frames_text(names->at(0)), "(over_budget)");
  budget.table_bytes = 1'000'000;
  names = find_code_names(fd.get(), -1, address, budget);
  ASSERT_TRUE(names);
  EXPECT_EQ(frames_text(names->at(0)), "local (symtab)");
  EXPECT_LT(budget.table_bytes, 1'000'000U);
  budget.time = std::chrono::nanoseconds(0);
  names = find_code_names(fd.get(), -1, address, budget);
  ASSERT_TRUE(names);
  EXPECT_EQ(frames_text(names->at(0)), "(over_budget)");
  EXPECT_LT(budget.time, std::chrono::nanoseconds(0)) << "the time is charged";
}

TEST_F(FindCodeNamesTest, RefusesFilesOfOtherKindsAndTooManyAddresses) {
  SymbolBudget budget;
  const std::vector<std::uint64_t> many(kMaxNamedAddresses + 1);
  const UniqueFd self = test::open_file("/proc/self/exe");
  EXPECT_EQ(find_code_names(self.get(), -1, many, budget).error().code, ErrorCode::kTooLarge);
  const UniqueFd text = test::open_file("/etc/passwd");
  EXPECT_EQ(find_code_names(text.get(), -1, {}, budget).error().code, ErrorCode::kMalformed);
}

}  // namespace
}  // namespace profd
