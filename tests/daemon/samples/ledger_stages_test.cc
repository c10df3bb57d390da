// A sample passes several stages between the kernel and the file. When a stage drops a sample
// without counting it, the ledger's difference shows it. (tests/bpf drops samples in the kernel
// itself.)

#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "daemon/profiles/profile_files.h"
#include "daemon/samples/aggregator.h"
#include "daemon/storage/result_writer.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/samples/synthetic_sample.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::kNoLimit;
using test::SyntheticSample;

constexpr SessionSlot kSlot = 3;
constexpr std::uint64_t kSamples = 10;

ProcessKey process(std::uint64_t n) {
  return {.tgid = static_cast<std::uint32_t>(n + 1), .exec_id = 1, .start_ns = 100};
}

// Passes samples through the stages as a session does; a test can make each stage drop one.
struct Stages {
  std::function<bool(std::uint64_t)> collector_passes = [](std::uint64_t) { return true; };
  std::function<void(SessionSamples&)> after_aggregation = [](SessionSamples&) {};
  std::function<void(SessionSnapshot&)> before_encoding = [](SessionSnapshot&) {};

  SessionLedger run() {
    test::ScratchDirectory scratch;
    Aggregator aggregator;
    aggregator.open(kSlot, kNoLimit);
    SessionSnapshot snapshot;
    snapshot.session = "00c0ffee";
    snapshot.event = {.name = "cpu", .unit = "microseconds", .frequency_hz = 99};
    for (std::uint64_t n = 0; n < kSamples; ++n) {
      ++snapshot.ledger.taken;
      SyntheticSample sample = SyntheticSample(process(n % 2)).leaf(0x1000 + n);
      SampleView view = sample.view();
      view.sessions = 1U << kSlot;
      if (collector_passes(n)) aggregator.on_sample(view);
    }
    SessionSamples samples = aggregator.close(kSlot);
    after_aggregation(samples);
    add_samples(snapshot, std::move(samples), aggregator.processes());
    before_encoding(snapshot);
    ResultWriter result = ResultWriter::create(scratch.path()).value();
    CodeNaming naming(std::make_unique<test::LocalParser>());
    return write_session(snapshot, naming, result).value().ledger;
  }
};

TEST(LedgerStages, AddUpWhenNothingIsDropped) {
  const SessionLedger ledger = Stages().run();
  EXPECT_EQ(ledger.taken, kSamples);
  EXPECT_EQ(ledger.written, kSamples);
  EXPECT_EQ(ledger.difference(), 0);
}

TEST(LedgerStages, ShowASampleThatTheCollectorDropsUncounted) {
  Stages stages;
  stages.collector_passes = [](std::uint64_t n) { return n != 4; };
  EXPECT_EQ(stages.run().difference(), 1);
}

TEST(LedgerStages, ShowAProcessThatTheAggregatorDropsUncounted) {
  Stages stages;
  stages.after_aggregation = [](SessionSamples& samples) { samples.processes.erase(process(0)); };
  EXPECT_EQ(stages.run().difference(), 5);
}

TEST(LedgerStages, ShowAProcessThatIsDroppedBeforeItsFileIsWritten) {
  Stages stages;
  stages.before_encoding = [](SessionSnapshot& snapshot) { snapshot.processes.pop_back(); };
  EXPECT_EQ(stages.run().difference(), 5);
}

}  // namespace
}  // namespace profd
