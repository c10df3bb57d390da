// The joining of starts and ends, with a clock of its own. Times are in microseconds here.

#include "collectors/off_cpu/open_blocks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kUs = 1000;
constexpr std::uint64_t kSecond = 1'000'000;  // in us
constexpr std::uint64_t kLongUs = 10'000;
constexpr std::uint32_t kEvenChance = 1U << 31;
constexpr ProcessKey kProcess{.tgid = 42, .exec_id = 1, .start_ns = 7};

struct DeliveredBlock {
  std::uint32_t sessions;
  std::uint64_t count;
  std::uint64_t us;
  std::uint64_t own_us;
  bool is_ongoing;
  profd_user_end user_end;
  std::vector<std::uint64_t> words;
};

class OpenBlocksTest : public testing::Test {
 protected:
  OpenBlocksTest()
      : blocks_([this](const ProcessKey&) { return user_; },
                [this](const SampleView& sample) {
                  delivered_.push_back({.sessions = sample.sessions,
                                        .count = sample.count,
                                        .us = sample.block.ns / kUs,
                                        .own_us = sample.block.own_ns / kUs,
                                        .is_ongoing = sample.block.is_ongoing,
                                        .user_end = sample.user_end,
                                        .words = {sample.words.begin(), sample.words.end()}});
                }) {}

  // A session that begins at once.
  void open(SessionSlot slot, std::uint64_t start_us) {
    blocks_.open(slot, start_us * kUs, kLongUs * kUs);
    blocks_.begin(slot, start_us * kUs);
  }

  void close(SessionSlot slot, std::uint64_t end_us,
             const std::optional<std::vector<std::uint64_t>>& open_ids = std::nullopt) {
    blocks_.end(slot, end_us * kUs);
    blocks_.close(slot, open_ids);
  }

  void start(std::uint64_t id, std::uint64_t start_us, std::uint32_t chance = 0,
             std::uint32_t sessions = 1, std::uint32_t tid = 0) {
    // Another array for each, which is gone after the call.
    const std::vector<std::uint64_t> words = {0xffff800000000000 + id, 0x401000 + id, 9};
    const std::span<const std::uint64_t> all(words);
    SampleView sample{};
    sample.process = kProcess;
    sample.time_ns = start_us * kUs;
    sample.tid = tid == 0 ? static_cast<std::uint32_t>(id) : tid;
    sample.sessions = sessions;
    sample.user_end = PROFD_END_ENTRY;
    sample.words = all;
    sample.kernel_frames = all.first(1);
    sample.user_frames = all.subspan(1, 1);
    sample.mapping_ids = all.last(1);
    sample.block = {.id = id,
                    .chance = chance,
                    .state = PROFD_BLOCK_SLEEPING,
                    .unsampled = unsampled_.blocks,
                    .unsampled_ns = unsampled_.ns};
    blocks_.on_start(sample);
  }

  void end(std::uint64_t id, std::uint64_t end_us) {
    blocks_.on_end({.id = id, .end_ns = end_us * kUs});
  }

  static WholeBlockView whole(std::uint64_t start_us, std::uint64_t end_us) {
    WholeBlockView block{};
    block.process = kProcess;
    block.start_ns = start_us * kUs;
    block.end_ns = end_us * kUs;
    block.user_ip = 0x401000;
    block.tid = 77;
    block.sessions = 1;
    block.state = PROFD_BLOCK_SLEEPING;
    block.context = PROFD_CONTEXT_SYSCALL;
    return block;
  }

  static WholeBlockView open_whole(std::uint64_t id, std::uint64_t start_us, std::uint64_t now_us) {
    WholeBlockView block = whole(start_us, now_us);
    block.id = id;
    block.is_open = true;
    return block;
  }

  void tick(std::uint64_t now_us) { blocks_.tick(now_us * kUs); }

  [[nodiscard]] std::uint64_t delivered_us(std::uint32_t sessions) const {
    std::uint64_t sum = 0;
    for (const DeliveredBlock& block : delivered_) sum += block.sessions == sessions ? block.us : 0;
    return sum;
  }

  std::uint32_t user_ = 0;
  BlockTerm unsampled_;  // of the next start
  std::vector<DeliveredBlock> delivered_;
  OpenBlocks blocks_;
};

TEST_F(OpenBlocksTest, ABlockIsDeliveredAtItsEndWithItsStack) {
  open(0, 100);
  start(5, 200);
  EXPECT_TRUE(delivered_.empty());
  EXPECT_TRUE(blocks_.has(kProcess));
  EXPECT_EQ(blocks_.size(), 1U);
  end(5, 260);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 60U);
  EXPECT_EQ(delivered_[0].count, 1U);
  EXPECT_FALSE(delivered_[0].is_ongoing);
  EXPECT_EQ(delivered_[0].words, (std::vector<std::uint64_t>{0xffff800000000005, 0x401005, 9}));
  EXPECT_EQ(blocks_.size(), 0U);
  EXPECT_EQ(blocks_.bytes(), 0U);
  EXPECT_FALSE(blocks_.has(kProcess));
}

// Finds an end that is dropped where the rings are read in another order.
TEST_F(OpenBlocksTest, AnEndMayComeBeforeItsStart) {
  open(0, 100);
  end(5, 260);
  tick(300);
  start(5, 200);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 60U);
  EXPECT_EQ(blocks_.size(), 0U);
}

// Finds a limit below that of the deferred unwinder, and one from the last tick on instead of the
// first one after the end: rings are drained every 4 s in continuous mode.
TEST_F(OpenBlocksTest, AnEndWaitsForADeferredStack) {
  open(0, 0);
  tick(100);
  end(5, 4 * kSecond);
  tick(4 * kSecond);
  tick(6 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_start, 0U);
  start(5, 200);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 4 * kSecond - 200);
}

TEST_F(OpenBlocksTest, AnEndWithoutAStartIsCountedAfterItsTime) {
  open(0, 0);
  end(5, 100);
  tick(100);
  tick(100 + 3 * kSecond - 1);
  EXPECT_EQ(blocks_.ledger(0).no_start, 0U);
  tick(100 + 3 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_start, 1U);
  tick(200 + 9 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_start, 1U);
}

TEST_F(OpenBlocksTest, TooManyEndsAreCountedAndTakeNoMemory) {
  open(0, 0);
  for (std::uint64_t id = 1; id <= OpenBlocks::kMaxWaitingEnds + 10; ++id) end(id, 100);
  EXPECT_EQ(blocks_.ledger(0).no_start, 10U);
}

// The thread has a later block, so the earlier one has ended, and its end does not come.
TEST_F(OpenBlocksTest, AStartWithoutAnEndIsCountedAfterItsTime) {
  open(0, 0);
  start(5, 100, 0, 1, 77);
  start(6, 500, 0, 1, 77);
  tick(600);
  tick(600 + 3 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_end, 1U);
  EXPECT_EQ(blocks_.size(), 1U);
  end(6, 9 * kSecond);
  EXPECT_EQ(delivered_us(1), 9 * kSecond - 500);
}

// Two rings may be read in any order: neither block has lost its end.
TEST_F(OpenBlocksTest, TheEndOfAnEarlierBlockMayComeAfterALaterStart) {
  open(0, 0);
  start(6, 500, 0, 1, 77);
  start(5, 100, 0, 1, 77);
  tick(600);
  end(5, 300);
  tick(600 + 9 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_end, 0U);
  EXPECT_EQ(delivered_us(1), 200U);
  end(6, 700);
  EXPECT_EQ(delivered_us(1), 400U);
}

TEST_F(OpenBlocksTest, EachSessionGetsThePartThatIsItsOwn) {
  open(0, 0);
  open(1, 0);
  blocks_.begin(1, 300 * kUs);
  start(5, 200, 0, 3);
  end(5, 500);
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(delivered_us(1), 300U);
  EXPECT_EQ(delivered_us(2), 200U);
  for (const DeliveredBlock& block : delivered_) EXPECT_EQ(block.own_us, block.us);
}

// Finds blocks of the time between a slot's start and its session's begin.
TEST_F(OpenBlocksTest, NothingCountsBeforeTheBegin) {
  blocks_.open(0, 0, kLongUs * kUs);
  start(5, 100);
  start(6, 110);
  end(5, 200);
  blocks_.begin(0, 300 * kUs);
  end(6, 1000);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 700U);
}

TEST_F(OpenBlocksTest, ABlockThatGoesOnAtTheEndCountsUpToItAsOngoing) {
  open(0, 0);
  start(5, 100);
  close(0, 50'000);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 49'900U);
  EXPECT_EQ(delivered_[0].own_us, 49'900U);
  EXPECT_TRUE(delivered_[0].is_ongoing);
  EXPECT_EQ(blocks_.ledger(0).ongoing, (BlockTerm{.blocks = 1, .ns = 49'900 * kUs}));
  EXPECT_EQ(blocks_.size(), 0U);
}

// Finds time behind the session's end, which is before its last records arrive.
TEST_F(OpenBlocksTest, AnEndBehindTheSessionsEndIsCutThere) {
  open(0, 0);
  start(5, 100);
  blocks_.end(0, 20'000 * kUs);
  end(5, 25'000);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 19'900U);
  EXPECT_TRUE(delivered_[0].is_ongoing);
}

TEST_F(OpenBlocksTest, ABlockThatTheKernelDoesNotListHasLostItsEnd) {
  open(0, 0);
  start(5, 100);
  start(6, 100);
  close(0, 50'000, std::vector<std::uint64_t>{6});
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].words.back(), 9U);
  EXPECT_EQ(delivered_[0].words.front(), 0xffff800000000006);
  EXPECT_EQ(blocks_.ledger(0).no_end, 1U);
}

// Finds ends of a closed session that another session counts as its losses.
TEST_F(OpenBlocksTest, TheEndOfABlockOfAClosedSessionIsNoLossOfAnother) {
  open(0, 0);
  open(1, 0);
  start(5, 100, 0, 1);
  close(0, 50'000);
  end(5, 60'000);
  tick(70'000);
  tick(9 * kSecond);
  EXPECT_EQ(blocks_.ledger(1).no_start, 0U);
}

// Finds: a block whose own time is that of all blocks that it stands for.
TEST_F(OpenBlocksTest, WhatIsNotCertainHasItsWeight) {
  open(0, 0);
  start(5, 100, kEvenChance);
  end(5, 160);
  start(6, 200, kEvenChance);
  end(6, 200 + kLongUs);
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(delivered_[0].count, 2U);
  EXPECT_EQ(delivered_[0].us, 120U);
  EXPECT_EQ(delivered_[0].own_us, 60U);
  EXPECT_EQ(delivered_[1].count, 1U);
  EXPECT_EQ(delivered_[1].us, kLongUs);
  EXPECT_EQ(delivered_[1].own_us, kLongUs);
  EXPECT_EQ(blocks_.ledger(0).by_weight, (BlockTerm{.blocks = 2, .ns = 120 * kUs}));
  EXPECT_EQ(blocks_.ledger(0).delivered, (BlockTerm{.blocks = 3, .ns = (120 + kLongUs) * kUs}));
}

// Owed are 8 blocks of 60 us then, of which an eighth is added.
TEST_F(OpenBlocksTest, WhatItsThreadHadUnsampledCorrectsAWeight) {
  constexpr std::uint32_t kThread = 7;
  open(0, 0);
  start(5, 100, kEvenChance, 1, kThread);
  end(5, 160);
  unsampled_ = {.blocks = 9, .ns = 540 * kUs};
  start(6, 200, kEvenChance, 1, kThread);
  end(6, 260);
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(delivered_[0].us, 120U);
  EXPECT_EQ(delivered_[1].count, 3U);
  EXPECT_EQ(delivered_[1].us, 180U);
  EXPECT_EQ(delivered_[1].own_us, 60U);
  EXPECT_EQ(blocks_.ledger(0).delivered, (BlockTerm{.blocks = 5, .ns = 300 * kUs}));
}

TEST_F(OpenBlocksTest, ALongBlockWithoutAStackIsDeliveredWithItsKernelStack) {
  open(0, 0);
  const std::vector<std::uint64_t> kernel = {0xffff800000000001, 0xffff800000000002};
  const std::vector<std::uint64_t> user = {0x401000};
  const std::vector<std::uint64_t> mappings = {9};
  WholeBlockView block = whole(100, 100 + kLongUs);
  block.kernel_frames = kernel;
  block.user_frames = user;
  block.mapping_ids = mappings;
  blocks_.on_whole(block);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, kLongUs);
  EXPECT_EQ(delivered_[0].own_us, kLongUs);
  EXPECT_EQ(delivered_[0].user_end, PROFD_END_NOT_TAKEN);
  EXPECT_EQ(delivered_[0].words,
            (std::vector<std::uint64_t>{0xffff800000000001, 0xffff800000000002, 0x401000, 9}));
  EXPECT_EQ(blocks_.ledger(0).without_stack, (BlockTerm{.blocks = 1, .ns = kLongUs * kUs}));
  EXPECT_EQ(blocks_.size(), 0U);
}

TEST_F(OpenBlocksTest, AKernelThreadHasNoUserStackThatCouldBeMissing) {
  open(0, 0);
  WholeBlockView block = whole(100, 100 + kLongUs);
  block.user_ip = 0;
  block.context = PROFD_CONTEXT_KTHREAD;
  blocks_.on_whole(block);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].user_end, PROFD_END_NO_USER_STACK);
}

// Finds blocks from before that only count if they are long: each of them is listed.
TEST_F(OpenBlocksTest, ABlockFromBeforeCountsAsItselfHoweverShortItIs) {
  open(0, 100);
  WholeBlockView block = open_whole(5, 100, 110);
  block.is_from_before = true;
  blocks_.on_whole(block);
  end(5, 400);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 300U);
  EXPECT_EQ(delivered_[0].user_end, PROFD_END_BEFORE_START);
  EXPECT_EQ(blocks_.ledger(0).from_before, (BlockTerm{.blocks = 1, .ns = 300 * kUs}));
}

TEST_F(OpenBlocksTest, AnOpenBlockThatWasNotChosenCountsOnlyIfItIsLong) {
  open(0, 0);
  blocks_.on_whole(open_whole(5, 100, 110));
  blocks_.on_whole(open_whole(6, 100, 110));
  end(5, 100 + kLongUs - 1);
  EXPECT_TRUE(delivered_.empty());
  end(6, 100 + kLongUs);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, kLongUs);
}

// The end may be in the rings when the list is made.
TEST_F(OpenBlocksTest, AnOpenBlockMayHaveEndedBeforeItsListArrives) {
  open(0, 0);
  end(5, 100 + kLongUs);
  blocks_.on_whole(open_whole(5, 100, 110));
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, kLongUs);
  EXPECT_EQ(blocks_.size(), 0U);
}

// A session that starts while another one runs gets its part of what is open, with the stack.
TEST_F(OpenBlocksTest, ASessionJoinsTheBlocksThatAreOpen) {
  open(0, 0);
  start(5, 100);
  open(1, 1000);
  WholeBlockView block = open_whole(5, 100, 1100);
  block.was_chosen = true;
  block.sessions = 3;
  blocks_.on_whole(block);
  end(5, 50'000);
  EXPECT_EQ(delivered_us(1), 49'900U);
  EXPECT_EQ(delivered_us(2), 49'000U);
  EXPECT_EQ(delivered_.back().words.size(), 3U);
}

TEST_F(OpenBlocksTest, ASessionJoinsABlockWhoseStackIsStillDeferred) {
  open(0, 0);
  open(1, 1000);
  WholeBlockView block = open_whole(5, 100, 1100);
  block.was_chosen = true;
  block.sessions = 3;
  blocks_.on_whole(block);
  start(5, 100);
  end(5, 50'000);
  EXPECT_EQ(delivered_us(1), 49'900U);
  EXPECT_EQ(delivered_us(2), 49'000U);
}

// A chosen block that has ended before its list is passed on is listed for nothing. Finds that
// these fill the table while the history runs, so that no session joins a deferred block any more.
TEST_F(OpenBlocksTest, BlocksThatAreListedForNothingAreForgotten) {
  open(0, 0);
  open(1, 1000);
  const auto list = [this](std::uint64_t id, std::uint64_t now_us) {
    WholeBlockView block = open_whole(id, 100, now_us);
    block.was_chosen = true;
    block.sessions = 3;
    blocks_.on_whole(block);
  };
  for (std::uint64_t id = 0; id < OpenBlocks::kMaxWaitingEnds; ++id) list(1000 + id, 1100);
  tick(2000);
  tick(2000 + 3 * kSecond);
  list(5, 4 * kSecond);
  start(5, 100);
  end(5, 5 * kSecond);
  EXPECT_EQ(delivered_us(2), 5 * kSecond - 1000);
}

// Its sample went to a session that is over.
TEST_F(OpenBlocksTest, ABlockThatWasChosenForAnEarlierSessionHasNoStack) {
  open(0, 0);
  start(5, 100);
  close(0, 1000);
  delivered_.clear();
  open(0, 2000);
  WholeBlockView block = open_whole(5, 100, 2100);
  block.was_chosen = true;
  blocks_.on_whole(block);
  end(5, 50'000);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 48'000U);
  EXPECT_EQ(delivered_[0].user_end, PROFD_END_BEFORE_START);
}

// Finds a block of another user's process, of the session that had the slot.
TEST_F(OpenBlocksTest, ABlockOfAnEarlierSessionIsNotDeliveredToALaterOneOfItsSlot) {
  open(0, 0);
  close(0, 1000);
  open(0, 5000);
  start(5, 900);
  end(5, 90'000);
  blocks_.on_whole(whole(900, 90'000));
  EXPECT_TRUE(delivered_.empty());
}

// The list of session 0 was made while slot 1 was an earlier session's. Finds the same leak.
TEST_F(OpenBlocksTest, AListFromBeforeASessionHasNothingForIt) {
  open(0, 0);
  open(1, 0);
  close(1, 1000);
  open(1, 3000);
  WholeBlockView block = open_whole(5, 500, 900);
  block.sessions = 3;
  blocks_.on_whole(block);
  end(5, 90'000);
  EXPECT_EQ(delivered_us(1), 89'500U);
  EXPECT_EQ(delivered_us(2), 0U);
}

// The list of an earlier session arrives after the move. Finds a block that the next window lacks.
TEST_F(OpenBlocksTest, ABlockThatWasListedBeforeAMoveIsInBothWindows) {
  open(0, 0);
  blocks_.move(0, 1, 50'000 * kUs);
  blocks_.on_whole(open_whole(5, 100, 49'000));
  end(5, 60'000);
  EXPECT_EQ(delivered_us(1), 49'900U);
  EXPECT_EQ(delivered_us(2), 10'000U);
}

// Slot 1 is that of a session that failed to start, whose open blocks get an id by any list.
TEST_F(OpenBlocksTest, TheEndOfABlockThatIsListedForNoSessionIsNoLoss) {
  open(0, 0);
  WholeBlockView block = open_whole(5, 500, 900);
  block.sessions = 2;
  blocks_.on_whole(block);
  end(5, 90'000);
  end(6, 90'000);
  block.id = 6;
  blocks_.on_whole(block);
  tick(100'000);
  tick(100'000 + 3 * kSecond);
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(blocks_.ledger(0).no_start, 0U);
}

TEST_F(OpenBlocksTest, AWindowsBlockIsCutInTwo) {
  open(0, 0);
  start(5, 100);
  blocks_.move(0, 1, 50'000 * kUs);
  start(6, 49'000);  // it was deferred
  blocks_.close(0, std::nullopt);
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_TRUE(delivered_[0].is_ongoing);
  EXPECT_TRUE(delivered_[1].is_ongoing);
  end(5, 90'000);
  end(6, 90'000);
  EXPECT_EQ(delivered_us(1), 49'900U + 1000U);
  EXPECT_EQ(delivered_us(2), 80'000U);
  EXPECT_FALSE(delivered_.back().is_ongoing);
}

// Finds the first part of such a block counted at the move and again at the close: the kernel lists
// what is open as both windows'.
TEST_F(OpenBlocksTest, AWindowsBlockThatIsListedAfterTheMoveCountsOnceInEach) {
  open(0, 0);
  start(5, 100);
  blocks_.move(0, 1, 50'000 * kUs);
  WholeBlockView block = open_whole(5, 100, 50'100);
  block.was_chosen = true;
  block.sessions = 3;
  blocks_.on_whole(block);
  blocks_.close(0, std::vector<std::uint64_t>{5});
  end(5, 90'000);
  EXPECT_EQ(delivered_us(1), 49'900U);
  EXPECT_EQ(delivered_us(2), 40'000U);
  EXPECT_EQ(delivered_.size(), 2U);
}

// Finds an end that counts for one window alone, and a loss where there is none.
TEST_F(OpenBlocksTest, AWindowsBlockThatEndsAfterTheMoveCountsInBoth) {
  open(0, 0);
  start(5, 100);
  blocks_.move(0, 1, 50'000 * kUs);
  end(5, 60'000);
  blocks_.close(0, std::vector<std::uint64_t>{});
  ASSERT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(delivered_us(1), 49'900U);
  EXPECT_EQ(delivered_us(2), 10'000U);
  EXPECT_EQ(blocks_.ledger(0).no_end, 0U);
  EXPECT_EQ(blocks_.ledger(0).ongoing, (BlockTerm{.blocks = 1, .ns = 49'900 * kUs}));
}

// Finds a block that each window of the history keeps and counts as lost again.
TEST_F(OpenBlocksTest, AWindowsBlockWhoseEndIsLostIsNotInTheNextOne) {
  open(0, 0);
  start(5, 100);
  start(6, 100);
  blocks_.move(0, 1, 50'000 * kUs);
  blocks_.close(0, std::vector<std::uint64_t>{6});
  EXPECT_EQ(blocks_.ledger(0).no_end, 1U);
  EXPECT_EQ(blocks_.size(), 1U);
  end(6, 60'000);
  EXPECT_EQ(delivered_us(2), 10'000U);
}

// A thread that sleeps for three windows, and was not chosen: the list after each move has it.
TEST_F(OpenBlocksTest, ABlockOfManyWindowsIsInEachOfThem) {
  open(0, 0);
  for (SessionSlot window = 0; window < 3; ++window) {
    const SessionSlot from = window % 2;
    const SessionSlot to = 1 - from;
    const std::uint64_t now = 100'000U * (window + 1U);
    blocks_.move(from, to, now * kUs);
    WholeBlockView block = open_whole(5, 100, now + 100);
    block.sessions = 3;
    blocks_.on_whole(block);
    blocks_.close(from, std::vector<std::uint64_t>{5});
    ASSERT_EQ(delivered_.size(), window + 1U);
    EXPECT_EQ(delivered_.back().sessions, 1U << from);
    EXPECT_EQ(delivered_.back().us, window == 0 ? 99'900U : 100'000U);
    EXPECT_TRUE(delivered_.back().is_ongoing);
  }
  end(5, 350'000);
  EXPECT_EQ(delivered_.back().us, 50'000U);
  EXPECT_EQ(blocks_.size(), 0U);
}

// Finds: a copy that ends the block, delivers it, or moves the carried remainders of the session.
TEST_F(OpenBlocksTest, ACopyHasTheOpenBlocksAndChangesNothing) {
  open(0, 0);
  start(5, 100);
  const std::vector<std::uint64_t> listed = {5};
  for (int copies = 0; copies < 2; ++copies) {
    const OngoingBlocks copy = blocks_.ongoing(0, 30'000 * kUs, listed);
    ASSERT_EQ(copy.blocks.size(), 1U);
    const SampleView sample = copy.blocks[0].valued(0);
    EXPECT_EQ(sample.sessions, 1U);
    EXPECT_EQ(sample.count, 1U);
    EXPECT_EQ(sample.block.ns, 29'900 * kUs);
    EXPECT_EQ(sample.block.own_ns, 29'900 * kUs);
    EXPECT_TRUE(sample.block.is_ongoing);
    EXPECT_EQ(sample.words[1], 0x401005U);
    const BlockTerm term{.blocks = 1, .ns = 29'900 * kUs};
    EXPECT_EQ(copy.ledger.ongoing, term);
    EXPECT_EQ(copy.ledger.delivered, term);
  }
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(blocks_.ledger(0).delivered, BlockTerm());
  end(5, 40'000);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 39'900U);
  EXPECT_FALSE(delivered_[0].is_ongoing);
}

// Finds a stack that goes with its block while a copy is made.
TEST_F(OpenBlocksTest, ACopyKeepsTheStacksOfBlocksThatEnd) {
  open(0, 0);
  start(5, 100);
  const OngoingBlocks copy = blocks_.ongoing(0, 30'000 * kUs, std::vector<std::uint64_t>{5});
  end(5, 40'000);
  ASSERT_EQ(copy.blocks.size(), 1U);
  EXPECT_EQ(copy.blocks[0].valued(0).words[1], 0x401005U);
}

// Finds: a part that counts again, at the end, at the close or for a list that was not made anew,
// and one that another session loses.
TEST_F(OpenBlocksTest, ThePartsOfABlockAreItsWhole) {
  open(0, 0);
  open(1, 0);
  const std::vector<std::uint64_t> listed = {5, 6};
  start(5, 100, 0, 3);
  start(6, 100, 0, 1);
  blocks_.deliver_ongoing(0, 30'000 * kUs, listed);
  EXPECT_EQ(delivered_us(1), 2 * 29'900U);
  EXPECT_EQ(delivered_us(2), 0U);
  blocks_.deliver_ongoing(0, 30'000 * kUs, listed);
  EXPECT_EQ(delivered_.size(), 2U);
  blocks_.deliver_ongoing(0, 70'000 * kUs, listed);
  EXPECT_EQ(delivered_us(1), 2 * 69'900U);
  for (const DeliveredBlock& block : delivered_) EXPECT_TRUE(block.is_ongoing);
  end(5, 75'000);
  EXPECT_EQ(delivered_us(1), 2 * 69'900U + 5'000U);
  EXPECT_EQ(delivered_us(2), 74'900U);
  EXPECT_FALSE(delivered_.back().is_ongoing);
  close(0, 80'000, std::vector<std::uint64_t>{6});
  EXPECT_EQ(delivered_us(1), 69'900U + 74'900U + 10'000U);
  EXPECT_EQ(blocks_.ledger(0).delivered.ns, delivered_us(1) * kUs);
  EXPECT_EQ(blocks_.ledger(0).ongoing.ns, (2 * 69'900U + 10'000U) * kUs);
}

// A thread may have left a block since the list was made, or entered one, and its records may lie
// in a ring. Finds the time of either counted up to the list.
TEST_F(OpenBlocksTest, OnlyBlocksThatAreListedHaveAPart) {
  open(0, 0);
  start(5, 100);
  start(6, 30'000);
  start(7, 100);
  start(8, 100);
  end(7, 25'000);
  delivered_.clear();
  const std::vector<std::uint64_t> listed = {6, 7, 8, 9};
  EXPECT_EQ(blocks_.ongoing(0, 30'000 * kUs, listed).blocks.size(), 1U);
  blocks_.deliver_ongoing(0, 30'000 * kUs, listed);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].words.front(), 0xffff800000000008);
}

// Finds a stall whose part counts by its weight, and a stack that was not chosen and counts twice:
// those that were chosen stand for it until it is long.
TEST_F(OpenBlocksTest, APartOfAShortBlockHasItsWeight) {
  open(0, 0);
  start(5, 100, kEvenChance);
  blocks_.on_whole(open_whole(6, 100, 160));
  const std::vector<std::uint64_t> listed = {5, 6};
  blocks_.deliver_ongoing(0, 160 * kUs, listed);
  ASSERT_EQ(delivered_.size(), 1U);
  EXPECT_EQ(delivered_[0].us, 120U);
  EXPECT_EQ(delivered_[0].own_us, 60U);
  EXPECT_EQ(blocks_.ledger(0).by_weight, (BlockTerm{.blocks = 2, .ns = 120 * kUs}));
  end(5, 20'160);
  end(6, 20'160);
  ASSERT_EQ(delivered_.size(), 3U);
  EXPECT_EQ(delivered_[1].us, 20'000U);
  EXPECT_EQ(delivered_[2].us, 20'000U);
}

// Finds a part of an earlier session that shortens that of a later one in the slot.
TEST_F(OpenBlocksTest, AnotherSessionOfTheSlotHasItsOwnParts) {
  open(0, 0);
  open(1, 0);
  start(5, 100, 0, 3);
  const std::vector<std::uint64_t> listed = {5};
  blocks_.deliver_ongoing(0, 30'000 * kUs, listed);
  close(0, 40'000, listed);
  open(0, 50'000);
  delivered_.clear();
  WholeBlockView block = open_whole(5, 100, 50'010);
  block.was_chosen = true;
  blocks_.on_whole(block);
  end(5, 60'000);
  EXPECT_EQ(delivered_us(1), 10'000U);
  EXPECT_EQ(delivered_us(2), 59'900U);
}

TEST_F(OpenBlocksTest, ABlockWithoutRoomIsCountedWithItsTime) {
  open(0, 0);
  user_ = 1000;
  std::uint64_t id = 0;
  while (blocks_.bytes() < OpenBlocks::kMaxBytesOfUser / 2) start(++id, 100);
  const std::uint64_t half = id;
  for (std::uint64_t i = 0; i < half + 100; ++i) start(++id, 100);
  EXPECT_LE(blocks_.bytes(), OpenBlocks::kMaxBytesOfUser);
  EXPECT_EQ(blocks_.size(), id);
  end(id, 400);
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(blocks_.ledger(0).no_room, (BlockTerm{.blocks = 1, .ns = 300 * kUs}));
  // Another user, and root, still have room.
  user_ = 1001;
  start(++id, 100);
  end(id, 400);
  user_ = 0;
  start(++id, 100);
  end(id, 400);
  EXPECT_EQ(delivered_.size(), 2U);
  EXPECT_EQ(blocks_.ledger(0).no_room.blocks, 1U);
}

TEST_F(OpenBlocksTest, WithoutASessionNothingIsKept) {
  start(5, 100);
  end(6, 100);
  blocks_.on_whole(whole(100, 90'000));
  EXPECT_EQ(blocks_.size(), 0U);
  open(0, 1000);
  tick(2000);
  tick(9 * kSecond);
  EXPECT_EQ(blocks_.ledger(0).no_start, 0U);
  EXPECT_TRUE(delivered_.empty());
}

}  // namespace
}  // namespace profd
