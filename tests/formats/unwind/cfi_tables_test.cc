#include "formats/unwind/cfi_tables.h"

#include <elf.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/changed_files.h"
#include "tests/formats/readers.h"
#include "tests/formats/unwind/cfi_comparison.h"
#include "tests/formats/unwind/find_rule.h"
#include "tests/formats/unwind/libdw_cfi.h"

namespace profd {
namespace {

using test::CfiTally;
using test::LibdwCfi;
using test::open_file;
using testing::HasSubstr;

// A file's table, read back, and its symbols.
class CodeTable {
 public:
  explicit CodeTable(const std::string& path, const std::string& debug_path = "") {
    const UniqueFd fd = open_file(path);
    const UniqueFd debug = debug_path.empty() ? UniqueFd() : open_file(debug_path);
    auto encoded = make_unwind_table(fd.get(), debug.get());
    EXPECT_TRUE(encoded) << path << ": " << encoded.error().message;
    if (!encoded) return;
    bytes_ = std::move(*encoded);
    auto view = read_unwind_table(bytes_);
    EXPECT_TRUE(view) << path << ": " << view.error().message;
    if (view) view_ = std::move(*view);
  }

  [[nodiscard]] const UnwindTableView& view() const { return view_; }
  [[nodiscard]] std::uint32_t lost(CfiLoss loss) const {
    return view_.header.lost[static_cast<std::size_t>(loss)];
  }
  [[nodiscard]] profd_rule at(std::uint64_t offset) const { return find_rule(view_, offset); }
  [[nodiscard]] int kind_at(std::uint64_t offset) const { return at(offset).kind; }

 private:
  std::string bytes_;
  UnwindTableView view_{};
};

std::uint32_t all_lost(const CodeTable& table) {
  std::uint32_t sum = 0;
  for (const std::uint32_t lost : table.view().header.lost) sum += lost;
  return sum;
}

class CfiTablesTest : public test::ChangedFilesTest {};

void forget_sections(std::string& file) {
  std::memset(file.data() + offsetof(Elf64_Ehdr, e_shoff), 0, 8);
  std::memset(file.data() + offsetof(Elf64_Ehdr, e_shnum), 0, 4);
}

// Compares all functions of `oracle` with `table`.
CfiTally compared(const std::string& oracle, const CodeTable& table, bool debug_frame = false) {
  CfiTally tally;
  const auto libdw = LibdwCfi::open(oracle, debug_frame);
  EXPECT_TRUE(libdw) << oracle;
  if (libdw) test::compare_with_libdw(oracle, *libdw, table.view(), tally);
  return tally;
}

// libdw rejects the instruction behind an expression in `dereferenced`. rbp is lost in `realigned`,
// where its location is relative to rbp and the CFA is relative to r10. The stack switch in
// `in_registers` and the false signal frame have unknown rules.
void expect_shapes(const std::string& oracle, const CodeTable& table) {
  const CfiTally tally = compared(oracle, table, oracle != CFI_SHAPES);
  EXPECT_GE(tally.functions, 13U);
  EXPECT_GE(tally.addresses, 50U);
  EXPECT_EQ(tally.unknown, 2U);
  EXPECT_EQ(tally.lost_registers, 2U);
  EXPECT_EQ(tally.refused, 1U);
}

// The offset in an image whose code is loaded where it lies in the file.
std::map<std::string, std::uint64_t> places(const std::string& path) {
  return test::nm_functions(path);
}

TEST_F(CfiTablesTest, MakesTheSameRulesAsLibdw) {
  const CodeTable table(CFI_SHAPES);
  expect_shapes(CFI_SHAPES, table);
  auto functions = places(CFI_SHAPES);
  EXPECT_EQ(table.kind_at(functions["pushes"]), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(functions["dereferenced"] + 1), PROFD_RULE_DEREF);
  EXPECT_EQ(table.kind_at(functions["dereferenced"] + 2), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(functions["indexed"] + 1), PROFD_RULE_DEREF);
  EXPECT_EQ(table.at(functions["indexed"] + 1).cfa_index, 10) << "r9";
  EXPECT_EQ(table.kind_at(functions["plus_of_expression"] + 1), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(functions["undefined"] + 3), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(functions["signal_frame"]), PROFD_RULE_SIGNAL);
  EXPECT_EQ(table.at(functions["signal_frame"]).cfa_offset, 40);
  EXPECT_EQ(table.kind_at(functions["lying_signal_frame"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(functions["in_registers"] + 3), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(functions["in_registers"] + 4), PROFD_RULE_UNKNOWN) << "another stack";
  EXPECT_EQ(table.lost(CfiLoss::kUnsupportedRegister), 2U) << "realigned, in_registers";
  EXPECT_EQ(table.lost(CfiLoss::kUnsupportedCfa), 1U) << "lying_signal_frame";
  EXPECT_EQ(all_lost(table), 3U);
}

TEST_F(CfiTablesTest, ReadsDebugFrameAsLibdwDoes) {
  expect_shapes(CFI_SHAPES_DEBUG, CodeTable(CFI_SHAPES_DEBUG));
}

TEST_F(CfiTablesTest, InflatesDebugFrameHoweverItIsCompressed) {
  for (const char* how : {"zlib", "zlib-gnu", "zstd"}) {
    const std::string packed = made_by(
        std::string("objcopy --compress-debug-sections=") + how + " " CFI_SHAPES_DEBUG " {}", how);
    const std::string sections = test::output_of("readelf -SW " + packed);
    ASSERT_TRUE(sections.find(".zdebug_frame") != std::string::npos ||
                sections.find("  C ") != std::string::npos)
        << how << " did not compress it";
    expect_shapes(CFI_SHAPES_DEBUG, CodeTable(packed));
  }
}

TEST_F(CfiTablesTest, UsesASeparateDebugFileForMissingCfi) {
  const std::string stripped = made_by("objcopy --strip-all " CFI_SHAPES_DEBUG " {}", "stripped");
  const std::string debug = made_by("objcopy --only-keep-debug " CFI_SHAPES_DEBUG " {}", "debug");
  auto functions = places(CFI_SHAPES_DEBUG);
  EXPECT_EQ(CodeTable(stripped).kind_at(functions["pushes"]), PROFD_RULE_UNKNOWN);
  expect_shapes(CFI_SHAPES_DEBUG, CodeTable(stripped, debug));
}

TEST_F(CfiTablesTest, RefusesADebugFileOfAnotherBuild) {
  const std::string stripped = made_by("objcopy --strip-all " CFI_SHAPES_DEBUG " {}", "stripped");
  const std::string debug = made_by("objcopy --only-keep-debug " CFI_SHAPES_DEBUG " {}", "debug");
  std::string bytes = test::read_file(debug);
  const std::size_t id = bytes.find("\x0a\x0b\x0c\x0d");
  ASSERT_NE(id, std::string::npos);
  bytes[id] = '\x0b';
  const std::string other = scratch_.write("other", bytes);
  const CodeTable table(stripped, other);
  EXPECT_EQ(table.kind_at(places(CFI_SHAPES_DEBUG)["pushes"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.lost(CfiLoss::kMalformed), 1U);
}

TEST_F(CfiTablesTest, FindsEhFrameWithoutSectionHeaders) {
  expect_shapes(CFI_SHAPES, CodeTable(changed(CFI_SHAPES, forget_sections)));
}

TEST_F(CfiTablesTest, CountsCfiThatNoRuleCanExpressAndMakesItUnknown) {
  const CodeTable table(CFI_WITHOUT_RULES);
  auto functions = places(CFI_WITHOUT_RULES);
  for (const char* name :
       {"literal_cfa", "cfa_of_xmm0", "huge_cfa", "empty_cfa", "cut_cfa", "longer_cfa",
        "two_dereferences", "same_return_address", "return_address_value", "stack_switch",
        "no_opcode", "restore_of_nothing", "cut_operand"}) {
    EXPECT_EQ(table.kind_at(functions[name]), PROFD_RULE_REGISTER) << name;
    EXPECT_EQ(table.kind_at(functions[name] + 1), PROFD_RULE_UNKNOWN) << name;
  }
  EXPECT_EQ(table.at(functions["rbp_by_value"] + 1).rbp_saved, PROFD_SAVED_LOST);
  EXPECT_EQ(table.at(functions["rbx_by_value"] + 1).rbx_saved, PROFD_SAVED_LOST);
  EXPECT_EQ(table.at(functions["rbp_of_another"] + 1).rbp_saved, PROFD_SAVED_LOST);
  EXPECT_EQ(table.kind_at(functions["rbp_by_value"] + 1), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.lost(CfiLoss::kUnsupportedCfa), 7U);
  EXPECT_EQ(table.lost(CfiLoss::kUnsupportedRegister), 6U);
  EXPECT_EQ(table.lost(CfiLoss::kMalformed), 3U);
}

TEST_F(CfiTablesTest, RecognizesTheEntryPointAndRestorersByTheirCode) {
  const CodeTable table(UNCOVERED);
  auto at = places(UNCOVERED);
  EXPECT_EQ(table.kind_at(at["_start"] - 1), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["_start"]), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(at["after_start"] - 1), PROFD_RULE_END) << "the call's return";
  EXPECT_EQ(table.kind_at(at["after_start"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["__restore_rt"] - 1), PROFD_RULE_SIGNAL) << "a return into it";
  EXPECT_EQ(table.at(at["__restore_rt"] - 1).cfa_offset, 40);
  EXPECT_EQ(table.kind_at(at["after_restorer"] - 1), PROFD_RULE_SIGNAL);
  EXPECT_EQ(table.kind_at(at["after_restorer"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["short_restorer"] + 1), PROFD_RULE_SIGNAL);
  for (const char* name : {"main", "other_system_call", "other_number"}) {
    for (std::uint64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(table.kind_at(at[name] + i), PROFD_RULE_UNKNOWN) << name << " " << i;
    }
  }
}

TEST_F(CfiTablesTest, RecognizesTheEndOfGoroutinesInGoProgramsOnly) {
  auto at = places(UNCOVERED);
  const CodeTable table(UNCOVERED);
  EXPECT_EQ(table.kind_at(at["goexit"] - 1), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["goexit"]), PROFD_RULE_END) << "a return behind its first nop";
  EXPECT_EQ(table.kind_at(at["after_goexit"] + 1), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["no_goexit"]), PROFD_RULE_UNKNOWN);
  const CodeTable other(
      changed(UNCOVERED, [](std::string& file) { file[file.find(".gopclntab") + 1] = 'n'; }));
  EXPECT_EQ(other.kind_at(at["goexit"]), PROFD_RULE_UNKNOWN);
}

// A new thread has the frame pointer of the one that started it, which must not be followed.
TEST_F(CfiTablesTest, RecognizesTheFirstFunctionsOfTheThreadsOfGo) {
  auto at = places(UNCOVERED);
  const CodeTable table(UNCOVERED);
  EXPECT_EQ(table.kind_at(at["go_mstart"] - 1), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["go_mstart"]), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(at["go_mstart_return"]), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(at["after_go_mstart"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["rt0_go"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["like_go_mstart"]), PROFD_RULE_UNKNOWN) << "not before abort";
  EXPECT_EQ(table.kind_at(at["go_clone"]), PROFD_RULE_UNKNOWN);
  for (const std::uint64_t in_parent : {at["go_clone_call"], at["go_clone_child"] - 1}) {
    EXPECT_EQ(table.kind_at(in_parent), PROFD_RULE_REGISTER);
    EXPECT_EQ(table.at(in_parent).cfa_register, PROFD_DWARF_RSP);
    EXPECT_EQ(table.at(in_parent).cfa_offset, 8);
  }
  EXPECT_EQ(table.kind_at(at["go_clone_child"]), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(at["after_go_clone"] - 1), PROFD_RULE_END);
  EXPECT_EQ(table.kind_at(at["after_go_clone"]), PROFD_RULE_UNKNOWN);
  const CodeTable other(
      changed(UNCOVERED, [](std::string& file) { file[file.find(".gopclntab") + 1] = 'n'; }));
  EXPECT_EQ(other.kind_at(at["go_mstart"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(other.kind_at(at["go_clone_child"]), PROFD_RULE_UNKNOWN);
}

TEST_F(CfiTablesTest, ContinuesARuleThroughPaddingButNotThroughCode) {
  const CodeTable table(UNCOVERED);
  auto at = places(UNCOVERED);
  EXPECT_EQ(table.kind_at(at["padding"] + 4), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(at["after_padding"]), PROFD_RULE_REGISTER);
  EXPECT_EQ(table.kind_at(at["tiny"]), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(table.kind_at(at["after_tiny"]), PROFD_RULE_REGISTER);
}

// The oracle is the same library linked with the linker's CFI.
TEST_F(CfiTablesTest, RecognizesPltEntriesWithoutCfi) {
  struct Case {
    const char* without;
    const char* with;
  };
  for (const Case& c : {Case{IMPORTS_WITHOUT_CFI, IMPORTS_WITH_CFI},
                        {IMPORTS_IBT_WITHOUT_CFI, IMPORTS_IBT_WITH_CFI}}) {
    ASSERT_EQ(test::output_of(std::string("readelf -wF ") + c.without).find("rip"),
              std::string::npos);
    const CodeTable without(c.without);
    const CodeTable with(c.with);
    std::size_t entries = 0;
    std::istringstream lines(test::output_of(std::string("readelf -SW ") + c.with));
    for (std::string line; std::getline(lines, line);) {
      unsigned long long vaddr = 0, offset = 0, bytes = 0;
      const std::size_t name = line.find(".plt");
      if (name == std::string::npos || line.find(" AX ") == std::string::npos) continue;
      ASSERT_EQ(
          std::sscanf(line.c_str() + name, "%*s PROGBITS %llx %llx %llx", &vaddr, &offset, &bytes),
          3);
      for (std::uint64_t at = offset; at < offset + bytes; ++at, ++entries) {
        const auto ours = test::caller_by_rule(without.at(at), vaddr + (at - offset));
        const auto linkers = test::caller_by_rule(with.at(at), vaddr + (at - offset));
        ASSERT_TRUE(linkers) << line;
        ASSERT_TRUE(ours) << line << std::hex << " " << at;
        ASSERT_EQ(ours->cfa, linkers->cfa) << line << std::hex << " " << at;
      }
    }
    EXPECT_GE(entries, 3U * 16U);
  }
}

TEST_F(CfiTablesTest, ReadsStaticAndPositionDependentPrograms) {
  for (const char* path : {STACK_PIE, STACK_NO_PIE, STACK_STRIPPED, STATIC, STATIC_PIE}) {
    const CfiTally tally = compared(path, CodeTable(path));
    EXPECT_GE(tally.functions, 8U) << path;
    EXPECT_LE(tally.unknown, 1U) << path << ": longjmp's last step";
    EXPECT_EQ(tally.refused, 0U) << path;
  }
}

// .far_text is in its own executable segment, whose addresses differ from its offsets.
TEST_F(CfiTablesTest, ReadsTheCodeOfEverySegment) {
  const CodeTable table(STACK_NO_PIE);
  const std::uint64_t vaddr = places(STACK_NO_PIE)["far_away"];
  const auto libdw = LibdwCfi::open(STACK_NO_PIE);
  ASSERT_TRUE(libdw);
  const auto offset = libdw->offset_of(vaddr);
  ASSERT_TRUE(offset);
  EXPECT_NE(*offset, vaddr);
  EXPECT_EQ(table.kind_at(*offset), PROFD_RULE_REGISTER);
}

TEST_F(CfiTablesTest, MakesNoRowsForGoCode) {
  const CodeTable table(GO_PPROF_BINARY);
  const auto functions = places(GO_PPROF_BINARY);
  ASSERT_TRUE(functions.contains("main.main"));
  const auto libdw = LibdwCfi::open(GO_PPROF_BINARY, true);
  ASSERT_TRUE(libdw);
  EXPECT_EQ(table.kind_at(*libdw->offset_of(functions.at("main.main"))), PROFD_RULE_UNKNOWN);
  EXPECT_EQ(all_lost(table), 0U);
}

TEST_F(CfiTablesTest, SaysWhyAFileIsRefused) {
  struct Case {
    const char* what;
    std::function<void(std::string&)> change;
    ErrorCode code;
    const char* message;
  };
  for (const Case& c : {
           Case{"empty", [](auto& f) { f.clear(); }, ErrorCode::kMalformed, "not an ELF file"},
           {"32 bit", [](auto& f) { f[EI_CLASS] = ELFCLASS32; }, ErrorCode::kUnsupported, "32-bit"},
           {"aarch64", [](auto& f) { f[18] = static_cast<char>(EM_AARCH64); },
            ErrorCode::kUnsupported, "another machine"},
           {"no segments", [](auto& f) { f[56] = f[57] = 0; }, ErrorCode::kUnsupported,
            "without code"},
           {"cut", [](auto& f) { f.resize(100); }, ErrorCode::kMalformed, "program headers"},
       }) {
    const UniqueFd fd = open_file(changed(STACK_PIE, c.change));
    const auto table = make_unwind_table(fd.get(), -1);
    ASSERT_FALSE(table) << c.what;
    EXPECT_EQ(table.error().code, c.code) << c.what;
    EXPECT_THAT(table.error().message, HasSubstr(c.message)) << c.what;
    EXPECT_FALSE(read_unwind_source(fd.get(), DigestKey{{1, 2}})) << c.what;
  }
  EXPECT_FALSE(make_unwind_table(-1, -1));
}

// For any change of 4 bytes of CFI the result is a table, and no row of the first and the last
// function is outside the code.
TEST_F(CfiTablesTest, SurvivesExtremeValuesInEveryWordOfCfi) {
  const std::string good = test::read_file(CFI_SHAPES);
  std::istringstream lines(test::output_of("readelf -SW " CFI_SHAPES " | grep ' .eh_frame '"));
  std::string line;
  std::getline(lines, line);
  unsigned long long offset = 0, bytes = 0;
  ASSERT_EQ(
      std::sscanf(line.c_str() + line.find(".eh_frame"), "%*s %*s %*x %llx %llx", &offset, &bytes),
      2);
  const std::string path = scratch_.path() / "worst";
  for (std::size_t at = offset; at + 4 <= offset + bytes; at += 4) {
    for (const char filler : {'\xff', '\0', '\x7f', '\x41'}) {
      std::string file = good;
      std::memset(file.data() + at, filler, 4);
      const CodeTable table(scratch_.write("worst", file));
      if (HasFailure()) FAIL() << std::hex << at;
    }
  }
}

}  // namespace
}  // namespace profd
