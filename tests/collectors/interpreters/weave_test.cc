// Stacks and their interpreted frames, and the order that both have together. The expected orders
// are by hand: native callees, the frames of a segment, its loop, what called it.

#include "collectors/interpreters/weave.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kNative = 0x401000;

std::vector<std::uint64_t> native_frames(std::size_t count) {
  std::vector<std::uint64_t> words;
  words.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    words.push_back((kNative + i) | std::uint64_t{PROFD_FRAME_ROW} << PROFD_FRAME_HOW_SHIFT);
  }
  return words;
}

std::size_t index_of(std::uint64_t word) { return UserFrame::from_word(word).address - kNative; }

// "f5" is a frame whose code has the id 5. "|2" is a boundary whose anchor lies in the native frame
// 2, "~2" one without an anchor, and "-" stands for a boundary that was not met.
std::vector<profd_interpreted_entry> entries_of(const std::string& text) {
  std::vector<profd_interpreted_entry> entries;
  std::istringstream stream(text);
  std::uint64_t anchor = 0x1000;
  for (std::string token; stream >> token;) {
    const std::string rest = token.substr(1);
    if (token[0] == 'f') {
      entries.push_back({.value = std::stoull(rest), .position = 7, .kind = PROFD_ENTRY_FRAME});
      continue;
    }
    const auto met = rest == "-" ? PROFD_NOT_MET : static_cast<std::uint32_t>(std::stoul(rest));
    anchor += 0x100;
    entries.push_back(
        {.value = token[0] == '|' ? anchor : 0, .position = met, .kind = PROFD_ENTRY_BOUNDARY});
  }
  return entries;
}

std::string text_of_words(const std::vector<std::uint64_t>& words) {
  std::string text;
  for (const std::uint64_t word : words) {
    if (!text.empty()) text += ' ';
    const bool is_interpreted = InterpretedFrame::is(word);
    text += is_interpreted ? 'f' : 'n';
    text +=
        std::to_string(is_interpreted ? InterpretedFrame::from_word(word).code : index_of(word));
  }
  return text;
}

struct Row {
  const char* name;
  std::size_t native;
  std::set<std::size_t> loops;
  const char* entries;
  const char* expected;
  std::uint64_t unanchored = 0;
  std::uint64_t loops_without_segment = 0;
  bool is_complete = true;
  profd_chain_end end = PROFD_CHAIN_COMPLETE;
};

class WovenStackTest : public testing::TestWithParam<Row> {};

TEST_P(WovenStackTest, HasTheFramesInTheirOrder) {
  const Row& row = GetParam();
  const std::vector<std::uint64_t> native = native_frames(row.native);
  const InterpretedStack stack{.kind = PROFD_RUNTIME_PYTHON,
                               .layout = 1,
                               .end = row.end,
                               .entries = entries_of(row.entries)};
  std::vector<std::uint64_t> words = {1, 2, 3};  // those of an earlier call
  WeaveCounts counts;
  weave(
      {.words = native, .is_complete = row.is_complete}, stack,
      [](std::uint64_t id) { return static_cast<std::uint32_t>(id); },
      [&row](std::uint64_t word) { return row.loops.contains(index_of(word)); }, words, counts);
  EXPECT_EQ(text_of_words(words), row.expected);
  EXPECT_EQ(counts.stacks, 1U);
  EXPECT_EQ(counts.frames, words.size() - native.size());
  EXPECT_EQ(counts.unanchored, row.unanchored);
  EXPECT_EQ(counts.loops_without_segment, row.loops_without_segment);
  EXPECT_EQ(counts.without_number, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Table, WovenStackTest,
    testing::Values(
        Row{"TheLoopIsTheLeaf", 2, {0}, "f1 f2 |0", "f1 f2 n0 n1"},
        Row{"NativeCalleesComeFirst", 3, {1}, "f1 |1", "n0 f1 n1 n2"},
        Row{"ACallback", 5, {1, 3}, "f1 |1 f2 f3 |3", "n0 f1 n1 n2 f2 f3 n3 n4"},
        Row{"ALoopThatEntersOrLeaves", 4, {0, 2}, "|0 f1 |2", "n0 n1 f1 n2 n3"},
        Row{"OneInTheMiddleWasNotMet",
            5,
            {1, 3},
            "f1 |1 f2 |- f3 |3",
            "n0 f1 n1 n2 f2 f3 n3 n4",
            1},
        Row{"TheInnermostWasNotMet", 3, {2}, "f1 |- f2 |2", "n0 n1 f1 f2 n2", 1},
        Row{"TheStackBrokeOff", 2, {0}, "f1 |0 f2 |-", "f1 n0 n1 f2", 1, 0, false},
        Row{"AnEmptySegmentIsNothingThatIsMissing", 2, {1}, "|- f1 |1", "n0 f1 n1"},
        Row{"AGreenletThatWaits", 6, {1, 4}, "f1 |1", "n0 f1 n1 n2 n3 n4 n5", 0, 1},
        Row{"ANativeFrameThatIsNotThere", 2, {}, "f1 |7", "n0 n1 f1", 1},
        Row{"TwoOfOneNativeFrame", 3, {1}, "f1 |1 f2 |1", "n0 f1 n1 n2 f2", 1},
        Row{"ANativeFrameBefore", 3, {2}, "f1 |2 f2 |0", "n0 n1 f1 n2 f2", 1},
        Row{"NothingIsNative", 0, {}, "f1 |0", "f1", 1, 0, false},
        Row{"AChainThatEndsBeforeItsLoop",
            3,
            {1},
            "f1 f2",
            "n0 f1 f2 n1 n2",
            0,
            0,
            true,
            PROFD_CHAIN_FRAME_LIMIT},
        Row{"AChainThatEndsInTheSecondSegment",
            5,
            {1, 3},
            "f1 |1 f2 f3",
            "n0 f1 n1 n2 f2 f3 n3 n4",
            0,
            0,
            true,
            PROFD_CHAIN_UNREADABLE},
        Row{"AChainThatEndsAndNoLoopIsKnown",
            2,
            {},
            "f1",
            "n0 n1 f1",
            1,
            0,
            true,
            PROFD_CHAIN_NOT_CODE},
        Row{"AChainThatEndsBehindOneThatWasNotMet",
            3,
            {1},
            "f1 |- f2",
            "n0 n1 n2 f1 f2",
            2,
            1,
            true,
            PROFD_CHAIN_DISORDERED},
        Row{"LoopsFromTheRoot", 5, {0, 2, 4}, "f1 ~0 f2 ~2", "n0 n1 f1 n2 n3 f2 n4", 0, 1},
        Row{"LoopsOfAGreenletThatWaits",
            6,
            {1, 3, 5},
            "f1 ~1 f2 ~3",
            "n0 f1 n1 n2 f2 n3 n4 n5",
            0,
            1},
        Row{"LoopsOfTwoGreenletsThatWait",
            6,
            {0, 2, 4, 5},
            "f1 ~0 f2 ~2",
            "f1 n0 n1 f2 n2 n3 n4 n5",
            0,
            2},
        Row{"LoopsFromTheLeafOfAStackThatBrokeOff",
            5,
            {0, 2, 4},
            "f1 ~0 f2 ~2",
            "f1 n0 n1 f2 n2 n3 n4",
            0,
            1,
            false},
        Row{"LoopsFromTheLeafOfAChainThatEnded",
            5,
            {0, 2, 4},
            "f1 ~0 f2 ~2",
            "f1 n0 n1 f2 n2 n3 n4",
            0,
            1,
            true,
            PROFD_CHAIN_FRAME_LIMIT},
        Row{"MoreSegmentsThanLoops", 3, {2}, "f1 ~- f2 ~2", "n0 n1 f1 f2 n2", 1},
        Row{"NoLoopForAnySegment", 2, {}, "f1 ~0", "n0 n1 f1", 1}),
    [](const auto& row) { return std::string(row.param.name); });

InterpretedFrame only_frame(const profd_interpreted_entry& entry, std::uint32_t number,
                            WeaveCounts& counts) {
  InterpretedStack stack;
  stack.entries = {entry};
  std::vector<std::uint64_t> words;
  weave(
      {}, stack, [number](std::uint64_t) { return number; }, [](std::uint64_t) { return false; },
      words, counts);
  EXPECT_EQ(words.size(), 1U);
  EXPECT_TRUE(InterpretedFrame::is(words.at(0)));
  return InterpretedFrame::from_word(words.at(0));
}

TEST(WeaveTest, AFrameHasItsNumberAndItsPosition) {
  WeaveCounts counts;
  const auto frame = [&counts](std::uint32_t position, std::uint32_t number) {
    return only_frame({.value = 9, .position = position, .kind = PROFD_ENTRY_FRAME}, number,
                      counts);
  };
  EXPECT_EQ(frame(77, 5).position, 77U);
  EXPECT_EQ(frame(77, 0xffff'ffff).code, 0xffff'ffffU);
  EXPECT_EQ(frame(PROFD_NO_POSITION, 5).position, InterpretedFrame::kNoPosition);
  EXPECT_EQ(frame(1 << 24, 5).position, InterpretedFrame::kNoPosition);
  EXPECT_EQ(counts.without_number, 0U);
  EXPECT_EQ(frame(77, 0).code, 0U);
  EXPECT_EQ(counts.without_number, 1U);
  EXPECT_EQ(counts.frames, 5U);
}

TEST(WeaveTest, AWordOfANativeFrameIsNotInterpreted) {
  for (unsigned how = 0; how < PROFD_FRAME_HOW_COUNT; ++how) {
    EXPECT_FALSE(InterpretedFrame::is(PROFD_FRAME_ADDRESS_MASK |
                                      std::uint64_t{PROFD_NO_MAPPING} << PROFD_FRAME_MAPPING_SHIFT |
                                      std::uint64_t{how} << PROFD_FRAME_HOW_SHIFT));
  }
}

std::vector<std::uint32_t> positions_of(const InterpretedStack& stack) {
  std::vector<std::uint32_t> positions;
  for (const profd_interpreted_entry& entry : stack.entries) {
    if (entry.kind == PROFD_ENTRY_BOUNDARY) positions.push_back(entry.position);
  }
  return positions;
}

// entries_of() has anchors at 0x1100, 0x1200 and so on.
InterpretedStack stack_of(const char* entries) {
  InterpretedStack stack;
  stack.entries = entries_of(entries);
  return stack;
}

using Positions = std::vector<std::uint32_t>;

TEST(AnchorWalkTest, AnAnchorIsMetInTheFrameThatHasIt) {
  InterpretedStack stack = stack_of("f1 |- f2 |- f3 |-");
  AnchorWalk walk(stack);
  EXPECT_FALSE(walk.goes_by_loop());
  walk.step(4, 0x1080, 0x1100);  // ends where the first anchor begins
  walk.step(5, 0x1100, 0x1180);
  walk.step(6, 0x1180, 0x1190);
  walk.step(7, 0x1190, 0x1208);
  EXPECT_EQ(positions_of(stack), (Positions{5, 7, PROFD_NOT_MET}));
}

TEST(AnchorWalkTest, AFrameMeetsTheFirstOfTwoAnchors) {
  InterpretedStack stack = stack_of("f1 |- f2 |- f3 |-");
  AnchorWalk walk(stack);
  walk.step(0, 0x1000, 0x1280);
  walk.step(1, 0x1280, 0x1400);
  EXPECT_EQ(positions_of(stack), (Positions{0, PROFD_NOT_MET, 1}));
}

TEST(AnchorWalkTest, AnAnchorBelowTheStackIsSkipped) {
  InterpretedStack stack = stack_of("f1 |- f2 |-");
  AnchorWalk walk(stack);
  walk.step(3, 0x1180, 0x1300);
  EXPECT_EQ(positions_of(stack), (Positions{PROFD_NOT_MET, 3}));
}

// The stack of a signal may lie above that of the thread.
TEST(AnchorWalkTest, AStackAboveAllAnchorsSkipsNone) {
  InterpretedStack stack = stack_of("f1 |- f2 |-");
  AnchorWalk walk(stack);
  walk.step(0, 0x9000, 0x9100);
  walk.step(1, 0x9100, 0x1080);  // to the frame that the signal interrupted
  walk.step(2, 0x1080, 0x1180);
  walk.step(3, 0x1180, 0x1280);
  EXPECT_EQ(positions_of(stack), (Positions{2, 3}));
}

TEST(AnchorWalkTest, GoesOnBehindTheLastOneThatTheProgramsMet) {
  InterpretedStack stack = stack_of("f1 |- f2 |2 f3 |-");
  AnchorWalk walk(stack);
  walk.step(3, 0x1000, 0x1301);
  EXPECT_EQ(positions_of(stack), (Positions{PROFD_NOT_MET, 2, 3}));
}

TEST(AnchorWalkTest, WithoutAnchorsTheCallerFindsTheLoops) {
  InterpretedStack stack = stack_of("f1 ~1 f2 ~- f3 ~-");
  AnchorWalk walk(stack);
  EXPECT_TRUE(walk.goes_by_loop());
  walk.step(3, 0, ~std::uint64_t{0});
  walk.meet_loop(5);
  EXPECT_TRUE(walk.goes_by_loop());
  walk.meet_loop(8);
  EXPECT_FALSE(walk.goes_by_loop());
  walk.meet_loop(9);
  EXPECT_EQ(positions_of(stack), (Positions{1, 5, 8}));
}

TEST(AnchorWalkTest, AStackWithoutBoundariesMeetsNothing) {
  InterpretedStack stack = stack_of("f1 f2");
  AnchorWalk walk(stack);
  walk.step(0, 0, ~std::uint64_t{0});
  walk.meet_loop(1);
  EXPECT_FALSE(walk.goes_by_loop());
}

}  // namespace
}  // namespace profd
