#include "formats/xray/profile.h"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/gperftools_writer.h"
#include "tests/formats/readers.h"
#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Function 1 calls 2 twice; ticks are 10 ns.
CallTree small_tree() {
  Writer writer({});
  writer.preamble({1, 2, 1'000, 1'000, 0});
  writer.function(Action::kEnter, 1, 0);
  for (int i = 0; i < 2; ++i) {
    writer.function(Action::kEnter, 2, 30'000);
    writer.function(Action::kExit, 2, 5'000);
  }
  writer.function(Action::kTailExit, 1, 1'000);
  Stacks stacks({});
  stacks.add({1, 2}, writer.take_records());
  return stacks.finish().tree;
}

FunctionMap two_functions(std::uint8_t first_sleds = 7) {
  return {{{0x1100, first_sleds, true}, {0x1200, 3, true}}};
}

TEST(XrayProfile, HasMicrosecondsAndCallsByAddress) {
  const CodeMap code({{two_functions(), 0x400000}});
  const Profiles made = make_profiles(small_tree(), 10, code);
  EXPECT_EQ(made.exclusive.period, 1U);
  Profile exclusive;
  exclusive.period = 1;
  exclusive.add_stack(std::vector<Frame>{{0x401100, PcKind::kExact}}, 610);
  exclusive.add_stack(std::vector<Frame>{{0x401200, PcKind::kExact}, {0x401100, PcKind::kExact}},
                      100);
  EXPECT_EQ(made.exclusive, exclusive);
  Profile calls;
  calls.period = 1;
  calls.add_stack(std::vector<Frame>{{0x401100, PcKind::kExact}}, 1);
  calls.add_stack(std::vector<Frame>{{0x401200, PcKind::kExact}, {0x401100, PcKind::kExact}}, 2);
  EXPECT_EQ(made.calls, calls);
}

// Of many stacks of half a microsecond each, the sum stays right.
TEST(XrayProfile, RoundingLosesNothingOfTheSum) {
  CallTree tree(0);
  for (std::uint32_t id = 1; id <= 1000; ++id) {
    const auto node = tree.child(tree.root(), id, 2000);
    tree[node].self_ticks = 499;
  }
  EXPECT_EQ(make_profiles(tree, 1, {}).exclusive.samples(), 499U);
}

TEST(XrayProfile, UnknownFunctionsAreNamedByTheirNumberInBothPprofs) {
  const Profiles made = make_profiles(small_tree(), 10, {});
  EXPECT_THAT(made.unknown, ElementsAre(1, 2));
  const test::ScratchDirectory directory;
  UnknownImage image = make_unknown_image(made.unknown);
  image.mapping.path = directory.write("ids.so", image.bytes);
  Profile profile = made.exclusive;
  profile.mappings = {image.mapping};
  const auto path = directory.write("out.prof", encode_gperftools(profile));
  for (const test::Report& report : {test::go_report(path), test::perl_report(path)}) {
    EXPECT_EQ(report.total, 710U);
    EXPECT_EQ(report.rows.at("xray:1"), (test::Row{610, 710}));
    EXPECT_EQ(report.rows.at("xray:2"), (test::Row{100, 100}));
  }
}

TEST(XrayProfile, PackedIdsAreOfTheObjectInTheirHighBits) {
  const CodeMap code({{two_functions(), 0}, {two_functions(), 0x700000}});
  EXPECT_EQ(code.address_of(2), 0x1200U);
  EXPECT_EQ(code.address_of(1U << kObjectShift | 2), 0x701200U);
  EXPECT_EQ(code.find(1U << kObjectShift | 3), nullptr);
  EXPECT_EQ(code.find(2U << kObjectShift | 1), nullptr);
  const CodeMap alone({{two_functions(), 0}});
  EXPECT_EQ(alone.find(1U << kObjectShift | 2), nullptr);
}

TEST(XrayProfile, AProgramThatCantHaveLeftTheRecordsIsFoundOut) {
  const CallTree tree = small_tree();
  EXPECT_FALSE(find_mismatch(tree, CodeMap({{two_functions(), 0}})));
  EXPECT_FALSE(find_mismatch(tree, {}));
  const Mismatch no_tail = find_mismatch(tree, CodeMap({{two_functions(3), 0}}));
  EXPECT_EQ(no_tail.unlike, 1U);
  EXPECT_EQ(no_tail.example, 1U);
  const Mismatch fewer = find_mismatch(tree, CodeMap({{{{{0x1100, 7, true}}}, 0}}));
  EXPECT_EQ(fewer.beyond, 1U);
  EXPECT_EQ(fewer.example, 2U);
}

// One record of a thousand calls has another's number, then one in fifty.
TEST(XrayProfile, AFlippedBitDoesNotMakeTheProgramAnother) {
  const CodeMap code({{two_functions(), 0}});
  for (const int flipped : {1, 20}) {
    CallTree tree(0);
    tree[tree.child(tree.root(), 1, 100)].calls = 1000;
    tree[tree.child(tree.root(), 77, 100)].calls = static_cast<std::uint64_t>(flipped);
    const Mismatch found = find_mismatch(tree, code);
    EXPECT_EQ(found.beyond, 1U);
    EXPECT_EQ(static_cast<bool>(found), flipped == 20);
  }
}

TEST(XrayProfile, FoldedLinesHaveNanosecondsOrCalls) {
  const auto name_of = [](std::uint32_t id) { return "f;" + std::to_string(id); };
  EXPECT_EQ(make_folded(small_tree(), 10, FoldedValue::kNanoseconds, name_of),
            "f:1 610000\nf:1;f:2 100000\n");
  EXPECT_EQ(make_folded(small_tree(), 10, FoldedValue::kCalls, name_of), "f:1 1\nf:1;f:2 2\n");
}

// A chain of calls without an end: the sum of all its stacks would be the square of it.
TEST(XrayProfile, ManyDeepStacksAreCutAndCounted) {
  CallTree tree(0);
  auto node = tree.root();
  for (std::uint32_t id = 1; id <= 10'000; ++id) {
    node = tree.child(node, id, 20'000);
    tree[node].calls = 1;
  }
  const Profiles made = make_profiles(tree, 1, {});
  EXPECT_GT(made.cut_stacks, 0U);
  EXPECT_EQ(made.calls.samples(), 10'000U);
  EXPECT_LE(encode_gperftools(made.calls).size(), std::size_t{160} << 20);
}

TEST(XrayProfile, AbsurdTimesAreNoHarm) {
  CallTree tree(0);
  for (std::uint32_t id = 1; id < 5; ++id) {
    tree[tree.child(tree.root(), id, 10)].self_ticks = ~std::uint64_t{0};
  }
  for (const double ns_per_tick : {1e-9, 1.0, 1e9}) {
    EXPECT_LE(make_profiles(tree, ns_per_tick, {}).exclusive.samples(), 1'000'000'000'000'000'000U);
  }
}

}  // namespace
}  // namespace profd::xray
