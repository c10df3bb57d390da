#include "formats/symbols/folding.h"

#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr SymbolBinding kGlobal = SymbolBinding::kGlobal;
constexpr SymbolBinding kWeak = SymbolBinding::kWeak;
constexpr SymbolBinding kLocal = SymbolBinding::kLocal;

TEST(FoldingTest, FunctionsOfOtherNamesAreFoldedAndAliasesAreNot) {
  struct Case {
    const char* what;
    std::vector<NamedSymbol> symbols;
    bool in_symtab;
    bool in_dynsym;
  };
  for (const Case& c : std::vector<Case>{
           {"one", {{"work", kGlobal}}, false, false},
           {"two functions of C", {{"first", kGlobal}, {"second", kGlobal}}, true, false},
           {"two local ones", {{"first", kLocal}, {"second", kLocal}}, true, false},
           {"a weak alias", {{"strong", kGlobal}, {"other", kWeak}}, false, false},
           {"glibc's", {{"malloc", kGlobal}, {"__libc_malloc", kGlobal}}, false, false},
           {"glibc's local", {{"__GI___kill", kLocal}, {"__GI_kill", kLocal}}, false, false},
           {"another binding", {{"first", kGlobal}, {"second", kLocal}}, false, false},
           {"a version", {{"first@@V_1", kGlobal}, {"second", kGlobal}}, false, false},
           {"a clone", {{"work", kLocal}, {"work.localalias", kLocal}}, false, false},
           {"constructors", {{"_ZN1AC1Ev", kWeak}, {"_ZN1AC2Ev", kWeak}}, false, false},
           {"overloads", {{"_Z1fi", kGlobal}, {"_Z1fj", kGlobal}}, false, false},
           {"two functions of C++", {{"_Z1fi", kGlobal}, {"_Z1gi", kGlobal}}, true, true},
           {"two weak ones", {{"_Z1fIiEvv", kWeak}, {"_Z1fIjEvv", kWeak}}, true, true},
           {"a C name of a C++ function", {{"_Z1fi", kGlobal}, {"c_name", kGlobal}}, false, false},
       }) {
    EXPECT_EQ(are_folded(c.symbols, false), c.in_symtab) << c.what;
    EXPECT_EQ(are_folded(c.symbols, true), c.in_dynsym) << c.what;
  }
}

}  // namespace
}  // namespace profd
