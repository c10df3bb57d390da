#include "formats/profile/profile.h"

#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

using enum PcKind;
using Pcs = std::vector<std::uint64_t>;

Pcs written(const std::vector<Frame>& stack) {
  Profile profile;
  profile.add_stack(stack, 1);
  const auto pcs = profile.pcs(profile.records()[0]);
  return {pcs.begin(), pcs.end()};
}

TEST(Profile, WritesReturnAddressesAndTheLeafAsTheyAre) {
  EXPECT_EQ(written({{0x1000, kExact}, {0x2000}, {0x3000}}), (Pcs{0x1000, 0x2000, 0x3000}));
}

TEST(Profile, WritesExactCallersOneHigher) {
  EXPECT_EQ(written({{0x1000, kExact}, {0x2000, kExact}, {0x3000}, {0x4000, kExact}}),
            (Pcs{0x1000, 0x2001, 0x3000, 0x4001}));
}

TEST(Profile, NeverWritesAnAddressOfZero) {
  EXPECT_EQ(written({{0, kExact}, {0x2000}}), (Pcs{1, 0x2000}));
  EXPECT_EQ(written({{0x1000, kExact}, {0}, {0}}), (Pcs{0x1000, 1, 1}));
}

TEST(Profile, WritesAStackWithoutFramesAsOneFrame) { EXPECT_EQ(written({}), (Pcs{1})); }

TEST(Profile, WritesTheFirstCallerOfARecursionUnlikeItsLeaf) {
  EXPECT_EQ(written({{0x1005, kExact}, {0x1005}, {0x1005}}), (Pcs{0x1005, 0x1004, 0x1005}));
  EXPECT_EQ(written({{1, kExact}, {1}}), (Pcs{1, 1})) << "but not as 0";
}

TEST(Profile, KeepsAtMostTheFramesThatPerlReads) {
  const Pcs pcs = written(std::vector<Frame>(70000, Frame{0x1000}));
  EXPECT_EQ(pcs.size(), 65536U);
}

TEST(Profile, AddsNothingForACountOfZero) {
  Profile profile;
  profile.add_stack(std::vector<Frame>{{0x1000}}, 0);
  EXPECT_TRUE(profile.records().empty());
}

TEST(Profile, SumsItsSamples) {
  Profile profile;
  profile.add_stack(std::vector<Frame>{{0x1000}}, 5);
  profile.add_stack(std::vector<Frame>{{0x1000}, {0x2000}}, 7);
  EXPECT_EQ(profile.samples(), 12U);
  EXPECT_EQ(profile.records().size(), 2U);
}

TEST(Profile, FoldsKernelAddressesAndLeavesOthers) {
  struct Case {
    std::uint64_t address;
    std::uint64_t folded;
  };
  // The first is the reference's example; the vsyscall page is above 2^63 too.
  for (const Case& c : {Case{0xffffffff81b6aad1, 0x0010ffff81b6aad1},
                        {0xffffffffff600000, 0x0010ffffff600000},
                        {0xffff800000000000, 0x0010800000000000},
                        {0x00007fffffffffff, 0x00007fffffffffff},
                        {0x0000000000000000, 0x0000000000000000}}) {
    EXPECT_EQ(fold_kernel_address(c.address), c.folded) << std::hex << c.address;
    EXPECT_EQ(unfold_kernel_address(c.folded), c.address) << std::hex << c.address;
  }
  EXPECT_EQ(written({{0xffffffff81000010, kExact}, {0xffffffff81000020}, {0x401000, kExact}}),
            (Pcs{0x0010ffff81000010, 0x0010ffff81000020, 0x401001}));
}

}  // namespace
}  // namespace profd
