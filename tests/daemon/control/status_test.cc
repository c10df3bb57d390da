#include "daemon/control/status.h"

#include <cstddef>

#include <gmock/gmock.h>

#include "daemon/samples/aggregator.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::SyntheticSample;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr ProcessKey kProcess{.tgid = 7, .exec_id = 1, .start_ns = 100};

TEST(Status, ShowsHowStacksEndedAndOnlyToPrivilegedCallersWhere) {
  UnwindStats stats;
  stats.tables = 3;
  stats.refused[static_cast<std::size_t>(TableRefusal::kTooLarge)] = 4;
  stats.deferred_done = 5;
  Aggregator aggregator;
  aggregator.on_sample(SyntheticSample(kProcess).leaf(1).end(PROFD_END_ENTRY).view());
  aggregator.on_sample(SyntheticSample(kProcess).leaf(2).end(PROFD_END_NO_ROW).view());
  const StatusInfo::Unwinding all = describe_unwinding(stats, aggregator.unwind_tally(), true);
  EXPECT_EQ(all.user_samples, 2U);
  EXPECT_EQ(all.complete_samples, 1U);
  EXPECT_THAT(all.incomplete, ElementsAre(Pair("no_row", 1)));
  EXPECT_THAT(all.worst, SizeIs(1));
  EXPECT_EQ(all.tables.count, 3U);
  EXPECT_THAT(all.tables.refused, ElementsAre(Pair("too_large", 4)));
  EXPECT_EQ(all.deferred.done, 5U);
  EXPECT_THAT(describe_unwinding(stats, aggregator.unwind_tally(), false).worst, IsEmpty());
}

}  // namespace
}  // namespace profd
