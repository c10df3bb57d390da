// c++filt, which demangles C++ and Rust, is the oracle.

#include "formats/symbols/demangle.h"

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/base/utf8_text.h"
#include "formats/symbols/code_names.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

// Without parameters, and without Rust's hashes.
std::vector<std::string> cxxfilt(const std::vector<std::string>& names) {
  const test::ScratchDirectory scratch;
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return lines_of(test::output_of("c++filt -p -i <" + scratch.write("names", text).string()));
}

// A function with `count` template arguments, of which each is twice as long as the one before.
std::string bomb(int count) {
  std::string name = "_ZN1aI1bIiiE";
  for (int i = 1; i <= count; ++i) {
    const std::string before = std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_";
    name += "S0_I" + before + before + "E";
  }
  return name + "E1gEv";
}

TEST(DemangleTest, NamesOfThisProgramAreThoseOfCxxfilt) {
  std::vector<std::string> names;
  for (const auto& [name, address] :
       test::nm_functions(std::filesystem::read_symlink("/proc/self/exe"))) {
    const bool is_plain = name.find_first_of(".@") == name.npos;
    if (is_plain && is_mangled(name) && name.size() < 1000) names.push_back(name);
  }
  ASSERT_GT(names.size(), 1000U);
  const std::vector<std::string> expected = cxxfilt(names);
  ASSERT_EQ(expected.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(shown_name(names[i]), valid_utf8(expected[i], kMaxCodeNameBytes)) << names[i];
  }
}

TEST(DemangleTest, RustNamesHaveNoHash) {
  const std::vector<std::string> names = {
      "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
      "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa"
      "94f1d3aE",
      "_RNvNtCs1234_7mycrate3foo3bar",
      "_RNvC6_123foo3bar",
      "_RINvNtC3std3mem8align_ofjdE",
      "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
  };
  const std::vector<std::string> expected = cxxfilt(names);
  ASSERT_EQ(expected.size(), names.size());
  EXPECT_EQ(shown_name(names[0]), "core::fmt::Formatter::pad");
  EXPECT_EQ(shown_name(names[2]), "mycrate::foo::bar");
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(shown_name(names[i]), expected[i]);
}

TEST(DemangleTest, ClonesHaveTheNameOfTheirFunction) {
  struct Case {
    const char* system_name;
    const char* name;
  };
  for (const Case& c : {Case{"plain", "plain"},
                        {"work.cold", "work"},
                        {"work.cold.12", "work"},
                        {"work.part.0", "work"},
                        {"work.isra.0", "work"},
                        {"work.constprop.0.isra.1.cold", "work"},
                        {"work.lto_priv.3", "work"},
                        {"work.llvm.1234567890123456789", "work"},
                        {"work.localalias", "work"},
                        {"work.localalias.4", "work"},
                        {"_ZN3foo3barEv.part.0", "foo::bar"},
                        {"_ZN3foo3barEv.constprop.0.cold", "foo::bar"},
                        {"_RNvNtCs1234_7mycrate3foo3bar.llvm.77", "mycrate::foo::bar"},
                        {"memcpy@@GLIBC_2.14", "memcpy"},
                        {"_ZNSs4swapERSs@GLIBCXX_3.4", "std::string::swap"},
                        // No suffixes of clones.
                        {"main.main", "main.main"},
                        {"main.(*server).run.func1", "main.(*server).run.func1"},
                        {"work.part.", "work.part."},
                        {"work.part.x", "work.part.x"},
                        {"work.llvm.", "work.llvm."},
                        {"work.coldest", "work.coldest"},
                        {".cold", ".cold"},
                        {"@plain", "@plain"},
                        {"", ""},
                        // Other languages stay as they are.
                        {"$s4main3fooyyF", "$s4main3fooyyF"},
                        {"_D4main3fooFZv", "_D4main3fooFZv"},
                        {"_Znonsense", "_Znonsense"},
                        {"_Z", "_Z"},
                        {"_R", "_R"}}) {
    EXPECT_EQ(shown_name(c.system_name), c.name) << c.system_name;
  }
}

TEST(DemangleTest, ABombIsCutAtTheLimit) {
  EXPECT_EQ(shown_name(bomb(3)), cxxfilt({bomb(3)}).at(0));
  const auto started = std::chrono::steady_clock::now();
  const std::string name = shown_name(bomb(34));
  EXPECT_LT(std::chrono::steady_clock::now() - started, 5s);
  EXPECT_EQ(name.size(), kMaxCodeNameBytes);
  EXPECT_TRUE(name.starts_with("a<b<int, int>, b<b<int, int>, b<int, int> >, ")) << name;
  EXPECT_TRUE(name.ends_with("...")) << name;
}

TEST(DemangleTest, ARustBombIsCutAtTheLimit) {
  // Tuples of which each has the one before twice, by references into the name.
  std::string name = "_RINvC1a1b";
  std::size_t before = name.size() - 2;
  name += "ThhE";
  const std::string digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 26; ++i) {
    // The number of a reference to offset n is n - 1 in base 62.
    std::string number;
    for (std::size_t n = before - 1; number.empty() || n > 0; n /= 62) {
      number.insert(0, 1, digits[n % 62]);
    }
    before = name.size() - 2;
    name += "TB" + number + "_B" + number + "_E";
  }
  name += "E";
  const auto started = std::chrono::steady_clock::now();
  const std::string shown = shown_name(name);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 5s);
  EXPECT_TRUE(shown.starts_with("a::b::<(u8, u8), ((u8, u8), (u8, u8)), (((")) << shown;
  EXPECT_EQ(shown.size(), kMaxCodeNameBytes);
  EXPECT_TRUE(shown.ends_with("..."));
}

TEST(DemangleTest, LongMangledNamesAreDemangled) {
  const std::string part(600, 'x');
  const std::string name = "_ZN600" + part + "3barE";  // 611 bytes
  EXPECT_EQ(shown_name(name), part + "::bar");
  std::string nested = "_ZN";
  for (int i = 0; i < 700; ++i) nested += "1a";
  EXPECT_TRUE(shown_name(nested + "E").starts_with("a::a::a::")) << "of 1,404 bytes";
}

TEST(DemangleTest, NamesOverTheLimitStayMangledAndAreCut) {
  std::string name = "_ZN";
  while (name.size() < kMaxMangledBytes) name += "1a";
  const std::string shown = shown_name(name + "E");
  EXPECT_EQ(shown, name.substr(0, kMaxCodeNameBytes - 3) + "...");
}

TEST(DemangleTest, DeeplyNestedNamesEnd) {
  for (const std::string& part :
       {std::string("P"), std::string("F"), std::string("N"), std::string("IL"), std::string("cv"),
        std::string("Dp"), std::string("XL"), std::string("1aI"), std::string("_Z1fI")}) {
    std::string name = "_Z1fI";
    while (name.size() + part.size() < kMaxMangledBytes) name += part;
    EXPECT_FALSE(shown_name(name).empty()) << part;
    EXPECT_FALSE(shown_name("_RINvC1a1b" + name.substr(5)).empty()) << part;
  }
}

TEST(DemangleTest, ARustNameThatRefersToItselfEnds) {
  for (const char* name : {"_RNvB_1a", "_RNvMB_NtB_1a1b", "_RINvC1a1bTB2_B2_EE"}) {
    EXPECT_FALSE(shown_name(name).empty()) << name;
  }
}

TEST(DemangleTest, NamesAreCutBetweenCharactersAndAreUtf8) {
  const std::string euros = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "\xe2\x82\xac";
    return text;
  }();
  const std::string shown = shown_name("x" + euros);
  EXPECT_LE(shown.size(), kMaxCodeNameBytes);
  EXPECT_GT(shown.size(), kMaxCodeNameBytes - 3);
  EXPECT_TRUE(is_valid_utf8(shown));
  EXPECT_TRUE(shown.ends_with("\xe2\x82\xac..."));
  EXPECT_EQ(shown_name("a\xff\x62"), "a\xef\xbf\xbd\x62");
  EXPECT_TRUE(is_valid_utf8(shown_name("\xed\xa0\x80"))) << "a surrogate";
}

}  // namespace
}  // namespace profd
