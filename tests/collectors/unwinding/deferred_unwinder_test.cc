// Deferred stacks, with fake table maps.

#include "collectors/unwinding/deferred_unwinder.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/unwinding/fake_table_maps.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kStack = 0x7ff000001000;
constexpr std::uint64_t kProgram = 0x400000;  // where the two files are mapped
constexpr std::uint64_t kLibrary = 0x500000;
constexpr ProcessKey kProcess{.tgid = 42, .exec_id = 1, .start_ns = 7};

constexpr std::size_t kMaxStacks = DeferredUnwinder::kMaxBytes / DeferredUnwinder::kMinBytes;

FileKey key(std::uint64_t inode) { return {.inode = inode, .size_bytes = 0x10000}; }

struct Delivered {
  std::vector<std::uint64_t> kernel;
  std::vector<UserFrame> frames;
  std::vector<std::uint64_t> mappings;
  profd_user_end end;
  std::size_t words;
  std::vector<profd_interpreted_entry> interpreted;
};

// A leaf in the library, called by the program; every frame of both has its CFA at sp + 16.
class DeferredUnwinderTest : public testing::Test {
 protected:
  DeferredUnwinderTest() {
    add_mapping(1, kProgram, key(1));
    add_mapping(2, kLibrary, key(2));
    words_ = {0, kLibrary + 0x20, 0, kProgram + 0x30, 0, 0xdead};
    words_.resize(64);
    registers_.ip = kLibrary + 0x10;
    registers_.sp = kStack;
    registers_.window_start = kStack;
  }

  void add_mapping(std::uint64_t id, std::uint64_t start, const FileKey& file) {
    CodeMapping mapping{};
    mapping.process = kProcess;
    mapping.id = id;
    mapping.start = start;
    mapping.end = start + 0x10000;
    mapping.file = file;
    mappings_.add(mapping, 0);
  }

  void add_sample(std::uint32_t sessions = 1, std::uint32_t user = 0,
                  const InterpretedStack* interpreted = nullptr) {
    lists_ = {0xffffffff81000000, frame_word(registers_.ip, PROFD_FRAME_INTERRUPTED), 2};
    const std::span<const std::uint64_t> all = lists_;
    SampleView sample{};
    sample.process = kProcess;
    sample.sessions = sessions;
    sample.user_end = PROFD_END_DEFERRED;
    sample.words = all;
    sample.kernel_frames = all.first(1);
    sample.user_frames = all.subspan(1, 1);
    sample.mapping_ids = all.last(1);
    unwinder_.add({.sample = sample, .registers = &registers_, .window = words_}, user, now_,
                  interpreted);
    lists_.assign(3, 0);  // borrowed for the call
  }

  static std::uint64_t frame_word(std::uint64_t address, profd_frame_how how) {
    return address | std::uint64_t{how} << PROFD_FRAME_HOW_SHIFT;
  }

  void install(std::uint64_t inode, bool entry = false) {
    profd_rule rule{};
    rule.kind = entry ? PROFD_RULE_END : PROFD_RULE_REGISTER;
    rule.cfa_register = PROFD_DWARF_RSP;
    rule.cfa_offset = 16;
    rule.ra_saved = PROFD_SAVED_AT_CFA;
    rule.ra_offset = -8;
    UnwindTableWriter writer;
    writer.add({.offset = 0, .rule = rule});
    writer.add({.offset = 0x8000, .rule = {}});
    const auto encoded = writer.encode();
    const auto table = read_unwind_table(*encoded);
    ASSERT_FALSE(tables_.install({.key = key(inode), .payer = 0, .regions = 1},
                                 std::to_string(inode), *table));
  }

  void take(const SampleView& sample, const InterpretedStack& interpreted) {
    Delivered one{.kernel = {sample.kernel_frames.begin(), sample.kernel_frames.end()},
                  .frames = {},
                  .mappings = {sample.mapping_ids.begin(), sample.mapping_ids.end()},
                  .end = sample.user_end,
                  .words = sample.words.size(),
                  .interpreted = interpreted.entries};
    for (const std::uint64_t word : sample.user_frames) {
      one.frames.push_back(UserFrame::from_word(word));
    }
    delivered_.push_back(one);
  }

  UnwindStats stats() const {
    UnwindStats stats;
    unwinder_.add_to(stats);
    return stats;
  }

  FakeMapsState state_{1 << 12};
  UnwindTables tables_{std::make_unique<FakeTableMaps>(state_),
                       {.max_bytes = 1 << 18, .arena_words = 1 << 12}};
  ProcessMappings mappings_;
  std::vector<std::uint64_t> requested_;
  std::vector<Delivered> delivered_;
  DeferredUnwinder unwinder_{
      tables_, mappings_,
      [this](const CodeMapping& mapping) { requested_.push_back(mapping.file.inode); },
      [this](const FileKey& file, std::uint64_t offset) {
        return file == key(2) && loop_.contains(offset);
      },
      [this](const SampleView& sample, const InterpretedStack& interpreted) {
        take(sample, interpreted);
      }};
  std::set<std::uint64_t> loop_;  // offsets in the library
  DeferredUnwinder::Clock::time_point now_{};
  profd_deferred_stack registers_{};
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> lists_;
};

TEST_F(DeferredUnwinderTest, AStackWaitsForOneFileAfterAnotherAndIsThenComplete) {
  add_sample();
  EXPECT_EQ(unwinder_.waiting(), 1U);
  EXPECT_EQ(requested_, (std::vector<std::uint64_t>{2}));
  unwinder_.poll(now_);
  EXPECT_TRUE(delivered_.empty());

  install(2);
  unwinder_.poll(now_);
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(requested_.back(), 1U);

  install(1, true);
  unwinder_.poll(now_);
  ASSERT_EQ(delivered_.size(), 1U);
  const Delivered& stack = delivered_[0];
  EXPECT_EQ(stack.end, PROFD_END_ENTRY);
  EXPECT_EQ(stack.kernel, (std::vector<std::uint64_t>{0xffffffff81000000}));
  EXPECT_EQ(stack.mappings, (std::vector<std::uint64_t>{2, 1}));
  ASSERT_EQ(stack.frames.size(), 3U);
  EXPECT_EQ(stack.frames[0].address, kLibrary + 0x10);
  EXPECT_EQ(stack.frames[0].how, PROFD_FRAME_INTERRUPTED);
  EXPECT_EQ(stack.frames[1].address, kLibrary + 0x20);
  EXPECT_EQ(stack.frames[1].how, PROFD_FRAME_ROW);
  EXPECT_EQ(stack.frames[1].mapping, 0U);
  EXPECT_EQ(stack.frames[2].address, kProgram + 0x30);
  EXPECT_EQ(stack.frames[2].mapping, 1U);
  EXPECT_EQ(stack.words, 1U + 3 + 2);
  EXPECT_EQ(unwinder_.waiting(), 0U);
  EXPECT_EQ(stats().deferred_done, 1U);
}

TEST_F(DeferredUnwinderTest, AStackWhoseTablesAreReadyIsDeliveredAtOnce) {
  install(1, true);
  install(2);
  add_sample();
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_ENTRY);
  EXPECT_TRUE(requested_.empty());
}

InterpretedStack segments_with(const std::vector<std::uint64_t>& anchors) {
  InterpretedStack stack{.kind = PROFD_RUNTIME_PYTHON, .layout = 1};
  for (const std::uint64_t anchor : anchors) {
    stack.entries.push_back({.value = 5, .position = 7, .kind = PROFD_ENTRY_FRAME});
    stack.entries.push_back(
        {.value = anchor, .position = PROFD_NOT_MET, .kind = PROFD_ENTRY_BOUNDARY});
  }
  return stack;
}

std::vector<std::uint32_t> met_by(const Delivered& delivered) {
  std::vector<std::uint32_t> frames;
  for (const profd_interpreted_entry& entry : delivered.interpreted) {
    if (entry.kind == PROFD_ENTRY_BOUNDARY) frames.push_back(entry.position);
  }
  return frames;
}

using Met = std::vector<std::uint32_t>;

// The leaf has [kStack, kStack + 16), its caller the next 16 bytes, and so on. The program has no
// table for a while.
TEST_F(DeferredUnwinderTest, InterpretedFramesMeetTheirLoopsInEachPartOfTheWalk) {
  InterpretedStack stack = segments_with({kStack + 8, kStack + 20, kStack + 40, kStack + 0x1000});
  install(2);
  add_sample(1, 0, &stack);
  stack = {};  // borrowed for the call
  EXPECT_TRUE(delivered_.empty());
  install(1);
  unwinder_.poll(now_);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].frames.size(), 3U);
  EXPECT_EQ(met_by(delivered_[0]), (Met{0, 1, 2, PROFD_NOT_MET}));
}

TEST_F(DeferredUnwinderTest, LoopsWithoutAnchorsAreKnownByTheirCode) {
  const InterpretedStack stack = segments_with({0, 0});
  loop_ = {0x1f};  // of the call at 0x20
  install(2);
  install(1, true);
  add_sample(1, 0, &stack);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].frames.size(), 3U);
  EXPECT_EQ(met_by(delivered_[0]), (Met{1, PROFD_NOT_MET}));
}

TEST_F(DeferredUnwinderTest, AStackThatIsDeliveredAsItIsHasItsInterpretedFrames) {
  const InterpretedStack stack = segments_with({kStack + 8});
  add_sample(1, 0, &stack);
  unwinder_.flush(1);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(met_by(delivered_[0]), (Met{PROFD_NOT_MET}));
}

TEST_F(DeferredUnwinderTest, InterpretedFramesCountAsMemory) {
  InterpretedStack stack;
  stack.entries.resize(PROFD_MAX_INTERPRETED_ENTRIES, {.value = 1, .position = 1, .kind = 0});
  const std::size_t bytes = DeferredUnwinder::kMinBytes + stack.entries.size() * 16;
  for (std::size_t i = 0; i < kMaxStacks; ++i) add_sample(1, 0, &stack);
  EXPECT_EQ(unwinder_.waiting(), DeferredUnwinder::kMaxBytes / bytes);
}

TEST_F(DeferredUnwinderTest, InARefusedFileTheFramePointerIsUsed) {
  registers_.bp = kStack + 16;  // words 2 and 3: the next frame pointer, and the program
  words_[2] = 0;
  install(1, true);
  add_sample();
  tables_.refuse({.key = key(2), .payer = 0, .regions = 1}, TableRefusal::kMalformed);
  unwinder_.poll(now_);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_ENTRY);
  ASSERT_EQ(delivered_[0].frames.size(), 2U);
  EXPECT_EQ(delivered_[0].frames[1].address, kProgram + 0x30);
  EXPECT_EQ(delivered_[0].frames[1].how, PROFD_FRAME_POINTER);
}

TEST_F(DeferredUnwinderTest, AStackThatWaitedTooLongIsDeliveredAsItIs) {
  install(2);
  add_sample();
  unwinder_.poll(now_ + DeferredUnwinder::kMaxWait - 1ms);
  EXPECT_TRUE(delivered_.empty());
  unwinder_.poll(now_ + DeferredUnwinder::kMaxWait);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_TABLE_LATE);
  EXPECT_EQ(delivered_[0].frames.size(), 3U);
  EXPECT_EQ(stats().deferred_abandoned, 1U);
}

TEST_F(DeferredUnwinderTest, AFlushDeliversOnlyTheStacksOfTheSession) {
  add_sample(0b01);
  add_sample(0b10);
  add_sample(0b11);
  EXPECT_EQ(unwinder_.waiting(), 3U);
  unwinder_.flush(0b01);
  EXPECT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(unwinder_.waiting(), 1U);
  unwinder_.flush(0b10);
  EXPECT_EQ(delivered_.size(), 3U);
  EXPECT_EQ(unwinder_.waiting(), 0U);
}

TEST_F(DeferredUnwinderTest, StacksBeyondTheLimitAreDeliveredAtOnce) {
  constexpr std::size_t kMore = 10;
  for (std::size_t i = 0; i < kMaxStacks + kMore; ++i) add_sample();
  EXPECT_EQ(unwinder_.waiting(), kMaxStacks);
  EXPECT_EQ(delivered_.size(), kMore);
  EXPECT_EQ(delivered_[0].end, PROFD_END_TABLE_LATE);
  unwinder_.flush(1);
  EXPECT_EQ(delivered_.size(), kMaxStacks + kMore);
}

TEST_F(DeferredUnwinderTest, TheBytesOfWaitingStacksAreLimited) {
  words_.resize(PROFD_DEFERRED_WINDOW_BYTES / 8);
  for (std::size_t i = 0; i < 3000; ++i) add_sample();
  EXPECT_EQ(unwinder_.waiting(), DeferredUnwinder::kMaxBytes / PROFD_DEFERRED_WINDOW_BYTES);
}

TEST_F(DeferredUnwinderTest, StacksOfUsersLeaveRoomForRoots) {
  constexpr std::uint32_t kFirst = 1000;
  constexpr std::uint32_t kSecond = 1001;
  const auto waiting_after = [this](std::uint32_t user) {
    for (std::size_t i = 0; i < kMaxStacks; ++i) add_sample(1, user);
    return unwinder_.waiting();
  };
  EXPECT_EQ(waiting_after(kFirst), kMaxStacks / 4) << "no other user has any";
  EXPECT_EQ(waiting_after(kSecond), kMaxStacks / 4 + kMaxStacks / 8);
  EXPECT_EQ(waiting_after(kFirst), kMaxStacks / 4 + kMaxStacks / 8);
  EXPECT_EQ(waiting_after(kSecond + 1), kMaxStacks / 2);
  EXPECT_EQ(waiting_after(kSecond + 2), kMaxStacks / 2);
  EXPECT_EQ(waiting_after(0), kMaxStacks);
  unwinder_.flush(1);
  EXPECT_EQ(waiting_after(kSecond + 2), kMaxStacks / 4)
      << "those that were delivered count no more";
}

TEST_F(DeferredUnwinderTest, ATurnEndsAfterSomeWalksAndTheNextOneGoesOn) {
  constexpr std::size_t kMore = 10;
  for (std::size_t i = 0; i < DeferredUnwinder::kMaxWalks + kMore; ++i) add_sample();
  EXPECT_FALSE(unwinder_.poll(now_)) << "no table has come";
  install(1, true);
  install(2);
  EXPECT_TRUE(unwinder_.poll(now_));
  EXPECT_EQ(delivered_.size(), DeferredUnwinder::kMaxWalks);
  EXPECT_FALSE(unwinder_.poll(now_));
  EXPECT_EQ(delivered_.size(), DeferredUnwinder::kMaxWalks + kMore);
}

TEST_F(DeferredUnwinderTest, ATurnThatIsOverTakesOneStackAtLeast) {
  for (int i = 0; i < 3; ++i) add_sample();
  install(1, true);
  install(2);
  const auto over = DeferredUnwinder::Clock::time_point::min();
  EXPECT_TRUE(unwinder_.poll(now_, over));
  EXPECT_EQ(delivered_.size(), 1U);
  EXPECT_TRUE(unwinder_.poll(now_, over));
  EXPECT_FALSE(unwinder_.poll(now_, over));
  EXPECT_EQ(delivered_.size(), 3U);
}

TEST_F(DeferredUnwinderTest, AStackThatWaitsDoesNotEndTheTurns) {
  for (int i = 0; i < 3; ++i) add_sample();
  install(2);
  const auto over = DeferredUnwinder::Clock::time_point::min();
  for (int turns = 0; turns < 3; ++turns) (void)unwinder_.poll(now_, over);
  EXPECT_EQ(requested_.size(), 3U + 3) << "each stack has had its turn";
  EXPECT_FALSE(unwinder_.poll(now_, over)) << "they wait for another file";
}

TEST_F(DeferredUnwinderTest, AnAddressOutsideMappingsEndsTheStackWithoutAFrame) {
  words_[1] = 0x12345678;
  install(2);
  add_sample();
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_PC_UNMAPPED);
  EXPECT_EQ(delivered_[0].frames.size(), 1U);
}

TEST_F(DeferredUnwinderTest, AStackWithoutKnownMappingsIsDelivered) {
  registers_.ip = 0x99999999;
  add_sample();
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_TABLE_LATE);
}

TEST_F(DeferredUnwinderTest, AStackEndsAtTheLimitOfFrames) {
  words_.assign(PROFD_DEFERRED_WINDOW_BYTES / 8, kLibrary + 0x20);
  install(2);
  add_sample();
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].end, PROFD_END_DEPTH_LIMIT);
  EXPECT_EQ(delivered_[0].frames.size(), std::size_t{PROFD_MAX_USER_FRAMES});
}

}  // namespace
}  // namespace profd::test
