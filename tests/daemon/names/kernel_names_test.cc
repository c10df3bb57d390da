#include "daemon/names/kernel_names.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

// From kallsyms, read in another way; 0: it has no such function.
std::uint64_t address_in_kallsyms(const std::string& function) {
  std::ifstream lines("/proc/kallsyms");
  std::string address;
  std::string type;
  std::string name;
  while (lines >> address >> type >> name) {
    if (name == function) return std::stoull(address, nullptr, 16);
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

constexpr const char* kSymbols =
    "ffffffff81000000 T start_kernel\n"
    "ffffffff82000000 T end_of_kernel\n"
    "ffffffffc0001000 t bpf_prog_11_old\t[bpf]\n"
    "ffffffffc0001100 t bpf_prog_22_kept\t[bpf]\n"
    "ffffffffc0004000 t bpf_trampoline_7\t[bpf]\n"
    "ffffffffc0008000 t bpf_prog_33_last\t[bpf]\n";

class KernelFunctionTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string name_at(std::uint64_t address) const {
    const auto found = find_kernel_function(symbols_, loaded_, address);
    return found ? std::string(found->name) + std::string(found->module) : "none";
  }

  KernelSymbols symbols_ = KernelSymbols::parse(kSymbols).value();
  std::vector<BpfFunction> loaded_{
      {.code = {.start = 0xffffffffc0001080, .end = 0xffffffffc00010a0}, .name = "bpf_prog_44_new"},
      {.code = {.start = 0xffffffffc0001100, .end = 0xffffffffc0001180},
       .name = "bpf_prog_22_kept"}};
};

TEST_F(KernelFunctionTest, IsThatOfKallsymsOutsideOfBpfPrograms) {
  EXPECT_EQ(name_at(0xffffffff81000010), "start_kernel");
}

TEST_F(KernelFunctionTest, OfABpfProgramIsInTheListAndEndsWhereTheCodeEnds) {
  EXPECT_EQ(name_at(0xffffffffc0001100), "bpf_prog_22_kept[bpf]");
  EXPECT_EQ(name_at(0xffffffffc000117f), "bpf_prog_22_kept[bpf]");
  EXPECT_EQ(name_at(0xffffffffc0001180), "none");
}

// A retpoline that is about to call a program leaves the program's address on the stack.
TEST_F(KernelFunctionTest, OfABpfProgramIsThatOfTheByteBeforeItToo) {
  EXPECT_EQ(name_at(0xffffffffc000107e), "none");
  EXPECT_EQ(name_at(0xffffffffc000107f), "bpf_prog_44_new[bpf]");
  EXPECT_EQ(find_kernel_function(symbols_, loaded_, 0xffffffffc0001080)->start, 0xffffffffc000107f)
      << "one function for all of its addresses";
  loaded_[0].code.end = loaded_[1].code.start;
  EXPECT_EQ(name_at(0xffffffffc00010ff), "bpf_prog_44_new[bpf]") << "code of another program";
  EXPECT_EQ(find_kernel_function(symbols_, loaded_, 0xffffffffc0001100)->start, 0xffffffffc0001100);
}

TEST_F(KernelFunctionTest, OfAnUnloadedBpfProgramIsNeitherItsOwnNorItsNeighbours) {
  EXPECT_EQ(name_at(0xffffffffc0001010), "none");
  EXPECT_EQ(name_at(0xffffffffc0001090), "bpf_prog_44_new[bpf]");
  EXPECT_EQ(name_at(0xffffffffc0008010), "none");
}

TEST_F(KernelFunctionTest, OfATrampolineIsAtMostAPage) {
  EXPECT_EQ(name_at(0xffffffffc0004fff), "bpf_trampoline_7[bpf]");
  EXPECT_EQ(name_at(0xffffffffc0005000), "none");
}

TEST_F(KernelFunctionTest, IsThatOfKallsymsWhereProgramsCannotBeListed) {
  loaded_.clear();
  EXPECT_EQ(name_at(0xffffffffc0001010), "bpf_prog_11_old[bpf]");
}

TEST(SharedKernelSymbolsTest, AreReadOnceForAll) {
  SharedKernelSymbols shared;
  const SharedKernelSymbols::Symbols first = shared.latest();
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(first->empty());
  EXPECT_EQ(shared.latest(), first);
}

TEST(SharedKernelSymbolsTest, NameTheKernelForEachWorker) {
  const auto shared = std::make_shared<SharedKernelSymbols>();
  KernelNames one(shared);
  KernelNames other(shared);
  const std::uint64_t address = address_in_kallsyms("vfs_read");
  ASSERT_NE(address, 0U);
  EXPECT_EQ(one.find(address + 4, {})->name, "vfs_read");
  const long users = shared->latest().use_count();
  EXPECT_EQ(other.find(address + 4, {})->name, "vfs_read");
  EXPECT_EQ(shared->latest().use_count(), users + 1) << "no copy";
  other.release();
  EXPECT_EQ(shared->latest().use_count(), users);
  EXPECT_EQ(other.find(address + 4, {})->name, "vfs_read");
}

}  // namespace
}  // namespace profd
