// Samples of a running session that are taken part by part.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "formats/profile/pprof_reader.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/sessions/sessions_fixture.h"

namespace profd {
namespace {

using test::everything;
using test::kAlice;
using test::kBob;
using test::kRoot;
using test::sample_at;

class TakesTest : public test::SessionsTest {
 protected:
  struct Part {
    std::int64_t samples = 0;
    SessionSummary summary;
  };

  Result<std::string> take(const Caller& caller, const std::string& id) {
    return run(sessions().take(caller, id));
  }

  Part part_of(const Result<std::string>& answer) {
    Part part;
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) return part;
    const auto profile = decode_pprof(*answer);
    EXPECT_TRUE(profile);
    for (std::size_t i = 0; i < profile->samples().size(); ++i) {
      part.samples += profile->values(i).front();
    }
    const auto protobuf = unpack_pprof(*answer);
    part.summary = parse_session_summary(*find_own_data(*protobuf)).value();
    EXPECT_EQ(part.summary.ledger.written, static_cast<std::uint64_t>(part.samples));
    EXPECT_EQ(part.summary.ledger.difference(), 0);
    return part;
  }

  Part taken(const std::string& id) { return part_of(take(kRoot, id)); }

  void sample(std::uint64_t count, std::uint64_t address = 1) {
    for (std::uint64_t i = 0; i < count; ++i) source_.take(sample_at(address + i), 0);
  }
};

TEST_F(TakesTest, ThePartsAndTheRestHaveEachSampleOnce) {
  const std::string id = start(kRoot, everything()).value();
  sample(5);
  EXPECT_EQ(taken(id).samples, 5);
  sample(3);  // with stacks that the first part has too
  EXPECT_EQ(taken(id).samples, 3);
  EXPECT_EQ(taken(id).samples, 0);
  sample(2);
  EXPECT_EQ(sessions().session(kRoot, id)->samples, 8U) << "two are on their way";
  const Result<ResultInfo> rest = stop(kRoot, id);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->summary.ledger.taken, 2U);
  EXPECT_EQ(rest->summary.ledger.written, 2U);
  EXPECT_EQ(rest->summary.ledger.difference(), 0);
  EXPECT_EQ(sessions().session(kRoot, id)->samples, 10U);
}

// Finds: counts of blocks in a ledger of microseconds, and parts that have the time of earlier
// ones.
TEST_F(TakesTest, ThePartsOfASessionOfBlocksHaveTheirTime) {
  StartRequest request = everything();
  request.event = "off-cpu";
  const std::string id = start(kRoot, request).value();
  source_.slots[0]->ledger.blocks.emplace();
  const auto block = [this](std::uint64_t ns, std::uint64_t count) {
    source_.take(sample_at(1).block(PROFD_BLOCK_SLEEPING, ns, count), 0);
  };
  const auto ledger_of_part = [&] {
    const Result<std::string> part = take(kRoot, id);
    EXPECT_TRUE(part) << part.error().message;
    const auto protobuf = unpack_pprof(*part);
    return parse_session_summary(*find_own_data(*protobuf)).value().ledger;
  };
  block(2'000'400, 3);
  const SessionLedger first = ledger_of_part();
  EXPECT_EQ(first.taken, 2'000U);
  EXPECT_EQ(first.difference(), 0);
  block(1'000'900, 1);
  block(700, 1);
  const SessionLedger second = ledger_of_part();
  EXPECT_EQ(second.written, 1'001U);
  EXPECT_EQ(second.difference(), 0);
  EXPECT_EQ(sessions().session(kRoot, id)->samples, 5U);
  EXPECT_EQ(sessions().session(kRoot, id)->period, 0U);
  block(5'000'000, 1);
  const Result<ResultInfo> copy = dump(kRoot, id);
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(copy->summary.ledger.written, 5'000U);
  EXPECT_EQ(copy->summary.ledger.difference(), 0);
  ASSERT_TRUE(copy->summary.blocks);
  const Result<ResultInfo> rest = stop(kRoot, id);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->summary.ledger.written, 5'000U);
  EXPECT_EQ(rest->summary.ledger.difference(), 0);
}

// Finds: a hang that shows only when the session is stopped, a copy that ends it or leaves it in
// the session, and one that two parts have.
TEST_F(TakesTest, ABlockThatIsOpenIsInACopyAndInOnePart) {
  StartRequest request = everything();
  request.event = "off-cpu";
  const std::string id = start(kRoot, request).value();
  source_.slots[0]->ledger.blocks.emplace();
  source_.take(sample_at(1).block(PROFD_BLOCK_SLEEPING, 2'000'000), 0);
  source_.open_block(sample_at(9).block(PROFD_BLOCK_DISK, 0), 7'000'000);
  for (int copies = 0; copies < 2; ++copies) {
    const Result<ResultInfo> copy = dump(kRoot, id);
    ASSERT_TRUE(copy) << copy.error().message;
    EXPECT_EQ(copy->summary.ledger.written, 9'000U);
    EXPECT_EQ(copy->summary.ledger.difference(), 0);
    ASSERT_TRUE(copy->summary.blocks);
    EXPECT_EQ(copy->summary.blocks->ongoing.us, 7'000U);
  }
  const auto taken_us = [&] {
    const Result<std::string> part = take(kRoot, id);
    EXPECT_TRUE(part) << part.error().message;
    const auto protobuf = unpack_pprof(*part);
    const SessionLedger ledger = parse_session_summary(*find_own_data(*protobuf)).value().ledger;
    EXPECT_EQ(ledger.difference(), 0);
    return ledger.written;
  };
  EXPECT_EQ(taken_us(), 9'000U);
  EXPECT_EQ(taken_us(), 0U);
}

// Finds the memory of a copy that stays charged, or is returned twice.
TEST_F(TakesTest, ACopyOfBlocksIsChargedUntilItIsWritten) {
  StartRequest request;
  request.target.uids = {kAlice.uid};
  request.event = "off-cpu";
  const std::string id = start(kAlice, request).value();
  source_.slots[0]->ledger.blocks.emplace();
  source_.take(sample_at(1).block(PROFD_BLOCK_SLEEPING, 2'000'000), 0);
  source_.open_block(sample_at(9).block(PROFD_BLOCK_DISK, 0), 7'000'000);
  source_.drain();
  const std::uint64_t charged = budget_bytes();
  EXPECT_GT(charged, 0U);
  ASSERT_TRUE(dump(kAlice, id));
  run_until([&] { return budget_bytes() == charged; });
}

TEST_F(TakesTest, ASampleOnItsWayIsInTheNextPart) {
  const std::string id = start(kRoot, everything()).value();
  sample(1);
  ++source_.slots[0]->ledger.taken;  // and not in the rings yet
  EXPECT_EQ(taken(id).summary.ledger.taken, 1U);
  --source_.slots[0]->ledger.taken;
  sample(1);
  EXPECT_EQ(taken(id).summary.ledger.taken, 1U);
  EXPECT_EQ(stop(kRoot, id)->summary.ledger, SessionLedger());
}

TEST_F(TakesTest, ALossIsCountedInOnePart) {
  const std::string id = start(kRoot, everything()).value();
  const auto lose = [this](std::uint64_t count) {
    source_.slots[0]->ledger.taken += count;
    source_.slots[0]->ledger.lost[static_cast<std::size_t>(Loss::kRingFull)] += count;
  };
  lose(4);
  EXPECT_EQ(sum_of(taken(id).summary.ledger.lost), 4U);
  EXPECT_EQ(sum_of(taken(id).summary.ledger.lost), 0U);
  lose(2);
  EXPECT_EQ(sessions().session(kRoot, id)->lost, 6U);
  EXPECT_EQ(sum_of(stop(kRoot, id)->summary.ledger.lost), 2U);
  EXPECT_EQ(sessions().session(kRoot, id)->lost, 6U);
}

TEST_F(TakesTest, ALossThatIsNotCountedIsTheDifferenceOfTheRest) {
  const std::string id = start(kRoot, everything()).value();
  sample(1);
  source_.slots[0]->ledger.taken += 2;
  EXPECT_EQ(taken(id).samples, 1);
  EXPECT_EQ(stop(kRoot, id)->summary.ledger.difference(), 2);
}

TEST_F(TakesTest, ThePartsAreOfTheTimesBetweenTheTakes) {
  const std::string id = start(kRoot, everything()).value();
  const double first = taken(id).summary.seconds;
  const double second = taken(id).summary.seconds;
  const double rest = stop(kRoot, id)->summary.seconds;
  EXPECT_NEAR(first + second + rest, sessions().session(kRoot, id)->seconds, 1e-6);
}

TEST_F(TakesTest, ASessionThatIsTakenFromDoesNotGrow) {
  const std::string id = start(kRoot, everything()).value();
  for (std::uint64_t i = 0; i < 50; ++i) {
    sample(10, 100 * i);
    EXPECT_EQ(taken(id).samples, 10);
    EXPECT_EQ(aggregator_.samples(0).bytes, 0U);
  }
  EXPECT_TRUE(results().all().empty());
  EXPECT_GE(source_.releases, 1) << "files of processes that have ended are closed meanwhile";
}

TEST_F(TakesTest, ThreadsStayDistinguished) {
  StartRequest request = everything();
  request.threads = true;
  const std::string id = start(kRoot, request).value();
  for (int i = 0; i < 2; ++i) {
    source_.take(sample_at(1).thread("reader"), 0);
    source_.take(sample_at(1).thread("writer"), 0);
    const auto answer = take(kRoot, id);
    ASSERT_TRUE(answer);
    EXPECT_EQ(decode_pprof(*answer)->samples().size(), 2U) << "part " << i;
  }
}

TEST_F(TakesTest, ADumpHasTheSamplesSinceTheLastTake) {
  const std::string id = start(kRoot, everything()).value();
  sample(3);
  EXPECT_EQ(taken(id).samples, 3);
  sample(2);
  const auto copy = dump(kRoot, id);
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(copy->summary.ledger.written, 2U);
  EXPECT_EQ(copy->summary.ledger.difference(), 0);
  EXPECT_EQ(taken(id).samples, 2) << "a dump removes nothing";
}

TEST_F(TakesTest, OnlyItsOwnerAndPrivilegedCallersTakeFromASession) {
  const std::string id = start(kAlice, test::by_comm("x")).value();
  sample(1);
  EXPECT_EQ(take(kBob, id).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(part_of(take(kAlice, id)).samples, 1);
  sample(1);
  EXPECT_EQ(taken(id).samples, 1);
  EXPECT_EQ(take(kAlice, "0badc0de").error().code, ErrorCode::kNotFound);
}

TEST_F(TakesTest, TheSamplesOfAnEndedSessionAreForStop) {
  const std::string id = start(kRoot, everything()).value();
  ASSERT_TRUE(stop(kRoot, id));
  const auto refused = take(kRoot, id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().hint, "profctl stop " + id + " fetches the rest");
}

TEST_F(TakesTest, ATakeWhileAnotherOneIsUnderWayIsBusy) {
  const std::string id = start(kRoot, everything()).value();
  sample(2);
  std::optional<Result<std::string>> first;
  std::optional<Result<std::string>> second;
  const auto begin_take = [&](std::optional<Result<std::string>>& answer) {
    boost::asio::co_spawn(io_, sessions().take(kRoot, id),
                          [&answer](const std::exception_ptr&, Result<std::string> profile) {
                            answer = std::move(profile);
                          });
  };
  begin_take(first);
  begin_take(second);
  run_until([&] { return first && second; });
  EXPECT_EQ(part_of(*first).samples, 2);
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().code, ErrorCode::kBusy);
  EXPECT_EQ(taken(id).samples, 0);
}

TEST_F(TakesTest, AStopDuringATakeHasTheRest) {
  const std::string id = start(kRoot, everything()).value();
  sample(2);
  std::optional<Result<std::string>> part;
  boost::asio::co_spawn(io_, sessions().take(kRoot, id),
                        [&part](const std::exception_ptr&, Result<std::string> profile) {
                          part = std::move(profile);
                        });
  const Result<ResultInfo> rest = stop(kRoot, id);
  run_until([&part] { return part.has_value(); });
  const auto samples = static_cast<std::uint64_t>(part_of(*part).samples);
  EXPECT_EQ(samples + rest->summary.ledger.written, 2U);
}

}  // namespace
}  // namespace profd
