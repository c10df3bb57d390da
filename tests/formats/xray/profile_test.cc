#include "formats/xray/profile.h"

#include <algorithm>
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

// 1,000 stacks of half a microsecond each.
TEST(XrayProfile, RoundingKeepsTheSumExact) {
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

TEST(XrayProfile, RecordsThatTheProgramCantWriteAreAMismatch) {
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

// A few wrong ids among a thousand calls are no mismatch, 2 % of them are.
TEST(XrayProfile, AFewWrongIdsAreNoMismatch) {
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

// Function 1 calls 2, which calls 3, and so on. All stacks together have depth^2 / 2 frames.
CallTree chain(std::uint32_t depth) {
  CallTree tree(0);
  auto node = tree.root();
  for (std::uint32_t id = 1; id <= depth; ++id) {
    node = tree.child(node, id, depth + 1);
    tree[node].calls = 1;
  }
  return tree;
}

TEST(XrayProfile, StacksOverTheLimitOfFramesKeepTheirInnermostFramesAndAreCounted) {
  const Profiles made = make_profiles(chain(100), 1, {}, {.max_frames = 2000});
  constexpr std::size_t kMaxDepth = 2000 / 101;  // an equal share for 100 functions and the root
  EXPECT_EQ(made.cut_stacks, 100U - kMaxDepth);
  EXPECT_EQ(made.calls.samples(), 100U);
  ASSERT_EQ(made.calls.records().size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    const auto pcs = made.calls.pcs(made.calls.records()[i]);
    ASSERT_EQ(pcs.size(), std::min(i + 1, kMaxDepth));
    for (std::size_t frame = 0; frame < pcs.size(); ++frame) {
      const auto id = static_cast<std::uint32_t>(i + 1 - frame);
      EXPECT_EQ(pcs[frame], CodeMap().address_of(id) + (frame == 0 ? 0 : 1));
    }
  }
}

TEST(XrayProfile, TheFramesOfAllStacksTogetherAreLimited) {
  const Profiles made = make_profiles(chain(10'000), 1, {});
  const std::size_t max_depth = kMaxProfileFrames / 10'001;
  EXPECT_EQ(made.cut_stacks, 10'000 - max_depth);
  EXPECT_EQ(made.calls.samples(), 10'000U);
  std::uint64_t frames = 0;
  for (const Profile::Record& record : made.calls.records()) {
    frames += made.calls.pcs(record).size();
  }
  EXPECT_LE(frames, kMaxProfileFrames);
  EXPECT_GE(frames, kMaxProfileFrames / 2);
  EXPECT_LE(encode_gperftools(made.calls).size(), std::size_t{160} << 20);
}

TEST(XrayProfile, StacksWithinTheLimitOfFramesAreWhole) {
  const Profiles made = make_profiles(chain(100), 1, {}, {.max_frames = 5050});
  EXPECT_EQ(made.cut_stacks, 0U);
  EXPECT_EQ(made.calls.pcs(made.calls.records().back()).size(), 100U);
}

TEST(XrayProfile, HugeTimesDoNotOverflow) {
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
