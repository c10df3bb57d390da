#include "daemon/samples/jit_samples.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/samples/aggregator.h"
#include "formats/jit/code_index.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kProcess;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kJit = 1;  // mapping ids
constexpr std::uint64_t kFile = 2;

MappingView mapping(std::uint64_t id, profd_mapping_kind kind) {
  return {{.process = kProcess,
           .time_ns = 1,
           .id = id,
           .start = id << 20,
           .end = (id + 1) << 20,
           .file_offset = 0,
           .file = {},
           .kind = kind}};
}

constexpr auto kNever = JitResolver::Clock::time_point::max();
constexpr auto kAtOnce = JitResolver::Clock::time_point::min();

// Resolves all at once.
JitSamples resolve_jit(const StackTable& stacks, JitLog log, const ProcessImage& image,
                       const JitLookup& code) {
  JitResolver resolver(stacks, std::move(log), image, code);
  while (resolver.advance(1000, kNever)) {
  }
  return resolver.take();
}

// An address in a mapping.
std::uint64_t at(std::uint64_t id, std::uint64_t offset) { return (id << 20) + offset; }

// One session of one process with JIT code and a file.
class JitSamplesTest : public testing::Test {
 protected:
  JitSamplesTest() {
    aggregator_.open(0, std::uint64_t{1} << 30);
    aggregator_.on_mapping(mapping(kJit, PROFD_MAPPING_ANONYMOUS), nullptr);
    auto file = std::make_shared<MappedFile>();
    file->path = "/lib/x.so";
    aggregator_.on_mapping(mapping(kFile, PROFD_MAPPING_FILE), std::move(file));
  }

  void add(SyntheticSample sample, std::uint64_t time_ns) {
    SampleView view = sample.view();
    view.time_ns = time_ns;
    aggregator_.on_sample(view);
  }

  void load(const std::string& name, std::uint64_t address, std::uint64_t born_ns) {
    index_.add({.address = address,
                .bytes = 0x100,
                .born_ns = born_ns,
                .serial = 0,
                .source = 0,
                .name = name,
                .code = {},
                .debug_info = {},
                .unwinding_info = {}});
  }

  JitLookup lookup() {
    return {
        .at = [this](std::uint64_t address, std::uint64_t time_ns) -> std::optional<JitFunction> {
          const auto code = index_.at(address, time_ns);
          if (!code) return std::nullopt;
          return JitFunction{.generation = code->serial, .code = *code};
        },
        .source_file_of = [](const JitCode&) { return std::nullopt; }};
  }

  const ProcessSamples& samples() const {
    return aggregator_.samples(0).processes.find(kProcess)->second;
  }

  JitSamples resolve() {
    return resolve_jit(samples().stacks, samples().jit, *aggregator_.processes().find(kProcess),
                       lookup());
  }

  // "a b" stands for the frames of a run, leaf first; the number for its samples.
  static std::map<std::string, std::uint64_t> text_of(const JitSamples& jit,
                                                      const StackTable& stacks) {
    std::map<std::string, std::uint64_t> text;
    for (const JitSamples::Run& run : jit.runs) {
      std::string frames;
      for (const std::uint32_t function :
           jit.frames_of(run, stacks.stacks()[run.stack].user_frames)) {
        const bool is_named = function != JitSamples::kNoFunction;
        frames += (frames.empty() ? "" : " ") + (is_named ? jit.functions[function].name : "-");
      }
      text[frames] += run.count;
    }
    return text;
  }

  Aggregator aggregator_;
  JitCodeIndex index_;
};

TEST_F(JitSamplesTest, ASampleIsNamedByTheCodeOfItsTime) {
  for (std::uint64_t time = 10; time < 40; ++time) {
    add(SyntheticSample(kProcess).leaf(at(kJit, 0x50), kJit), time);
  }
  load("first", at(kJit, 0), 5);
  load("second", at(kJit, 0x40), 20);  // overlaps it in part
  load("third", at(kJit, 0x20), 35);
  EXPECT_EQ(text_of(resolve(), samples().stacks),
            (std::map<std::string, std::uint64_t>{{"first", 10}, {"second", 15}, {"third", 5}}));
}

TEST_F(JitSamplesTest, ALateRecordNamesEarlierSamples) {
  add(SyntheticSample(kProcess).leaf(at(kJit, 0x50), kJit), 10);
  load("late", at(kJit, 0), 500);
  EXPECT_EQ(text_of(resolve(), samples().stacks),
            (std::map<std::string, std::uint64_t>{{"late", 1}}));
}

TEST_F(JitSamplesTest, ACallerIsLookedUpAtItsCall) {
  load("caller", at(kJit, 0), 1);
  load("next", at(kJit, 0x100), 1);
  add(SyntheticSample(kProcess).leaf(at(kFile, 8), kFile).user(at(kJit, 0x100), kJit), 10);
  EXPECT_EQ(text_of(resolve(), samples().stacks),
            (std::map<std::string, std::uint64_t>{{"- caller", 1}}));
}

TEST_F(JitSamplesTest, CodeOfAFileIsNotNamedByARuntime) {
  load("liar", at(kFile, 0), 1);
  load("made", at(kJit, 0), 1);
  add(SyntheticSample(kProcess).leaf(at(kFile, 8), kFile).user(at(kJit, 8), kJit), 10);
  const JitSamples jit = resolve();
  EXPECT_EQ(text_of(jit, samples().stacks), (std::map<std::string, std::uint64_t>{{"- made", 1}}));
  EXPECT_THAT(jit.unnamed, IsEmpty());
}

// Its word has no mapping, as that of a frame whose mapping's record is late, and here it has the
// bits of an address in JIT code.
TEST_F(JitSamplesTest, AnInterpretedFrameIsNoJitCode) {
  load("liar", at(kJit, 0x5000), 1);
  load("before", at(kJit, 0), 1);
  load("after", at(kJit, 0), 15);
  const auto position = static_cast<std::uint32_t>(at(kJit, 0x5008));
  for (const std::uint64_t time : {10U, 11U, 20U}) {
    add(SyntheticSample(kProcess).interpreted(0, position).leaf(at(kJit, 8), kJit), time);
  }
  const JitSamples jit = resolve();
  EXPECT_EQ(text_of(jit, samples().stacks),
            (std::map<std::string, std::uint64_t>{{"- before", 2}, {"- after", 1}}));
  EXPECT_THAT(jit.unnamed, IsEmpty());
}

TEST_F(JitSamplesTest, AnInterpretedFrameMeansTheSameAtAllTimes) {
  load("one", at(kJit, 0x5000), 1);
  load("two", at(kJit, 0x5000), 15);
  const auto position = static_cast<std::uint32_t>(at(kJit, 0x5008));
  for (const std::uint64_t time : {10U, 20U}) {
    add(SyntheticSample(kProcess).interpreted(0, position).leaf(at(kJit, 8), kJit), time);
  }
  load("code", at(kJit, 0), 1);
  const JitSamples jit = resolve();
  ASSERT_EQ(jit.runs.size(), 1U);
  EXPECT_EQ(jit.runs[0].count, 2U);
}

TEST_F(JitSamplesTest, CodeWithoutANameKeepsItsAddress) {
  load("made", at(kJit, 0), 1);
  add(SyntheticSample(kProcess).leaf(at(kJit, 0x5000), kJit), 10);
  const JitSamples jit = resolve();
  EXPECT_EQ(text_of(jit, samples().stacks), (std::map<std::string, std::uint64_t>{{"-", 1}}));
  EXPECT_THAT(jit.unnamed, ElementsAre(at(kJit, 0x5000)));
}

TEST_F(JitSamplesTest, NoTimesAreKeptForOtherCode) {
  for (std::uint64_t time = 1; time < 100; ++time) {
    add(SyntheticSample(kProcess).leaf(at(kFile, time), kFile), time);
  }
  EXPECT_TRUE(samples().jit.empty());
  EXPECT_THAT(resolve().runs, IsEmpty());
}

TEST_F(JitSamplesTest, AMappingThatIsNotKnownYetMayBeJitCode) {
  add(SyntheticSample(kProcess).leaf(at(9, 8), 9), 10);
  load("made", at(9, 0), 1);
  EXPECT_EQ(text_of(resolve(), samples().stacks),
            (std::map<std::string, std::uint64_t>{{"made", 1}}));
}

TEST_F(JitSamplesTest, SamplesBeyondTheMemoryLimitAreStillCounted) {
  constexpr std::uint64_t kSamples = 1000;
  aggregator_.open(1, 4096);  // room for the process and a stack, but not for so many times
  for (std::uint64_t time = 1; time <= kSamples; ++time) {
    SyntheticSample sample = SyntheticSample(kProcess).leaf(at(kJit, 8), kJit).sessions(0b10);
    add(sample, time);
  }
  load("made", at(kJit, 0), 1);
  const SessionSamples session = aggregator_.close(1);
  EXPECT_EQ(session.samples, kSamples);
  EXPECT_LE(session.bytes, 4096U);
  ASSERT_TRUE(session.processes.contains(kProcess));
  ASSERT_TRUE(aggregator_.processes().find(kProcess));
  const ProcessSamples& process = session.processes.find(kProcess)->second;
  EXPECT_LT(process.jit.entries().size(), kSamples);
  const JitSamples jit =
      resolve_jit(process.stacks, process.jit, *aggregator_.processes().find(kProcess), lookup());
  EXPECT_EQ(text_of(jit, process.stacks),
            (std::map<std::string, std::uint64_t>{{"made", kSamples}}));
}

// Stacks of so many frames each, all of JIT code.
class DeepJitStacksTest : public JitSamplesTest {
 protected:
  static constexpr std::size_t kDepth = 100;

  // Adds a sample of a stack that differs by its number.
  void add_stack(std::uint64_t number, std::uint64_t time_ns) {
    SyntheticSample sample(kProcess);
    for (std::uint64_t i = 0; i < kDepth; ++i) sample.user(at(kJit, 16 * (number + i)), kJit);
    add(sample, time_ns);
  }

  JitResolver resolver() {
    JitLookup code = lookup();
    code.at = [this, find = code.at](std::uint64_t address, std::uint64_t time_ns) {
      ++asked_;
      return find(address, time_ns);
    };
    return {samples().stacks, samples().jit, *aggregator_.processes().find(kProcess), code};
  }

  std::size_t asked_ = 0;
};

TEST_F(DeepJitStacksTest, ATurnIsBoundedByTheFramesOfTheStacks) {
  constexpr std::size_t kTurn = 1000;
  for (std::uint64_t number = 0; number < 50; ++number) add_stack(number, 1 + number);
  JitResolver slices = resolver();
  std::size_t turns = 1;
  for (std::size_t before = 0; slices.advance(kTurn, kNever); before = asked_, ++turns) {
    EXPECT_LE(asked_ - before, kTurn);
  }
  EXPECT_EQ(asked_, 50 * kDepth) << "each frame once";
  EXPECT_GE(turns, 50 * kDepth / kTurn);
}

// One stack whose outermost frame changes its meaning again and again, and its other frames do not:
// to find that out takes many look-ups.
TEST_F(DeepJitStacksTest, ATurnWhoseTimeIsOverEndsInsideAStackAndTheNextOneContinues) {
  for (std::uint64_t time = 1; time <= 200; ++time) add_stack(0, time);
  for (std::uint64_t i = 0; i < 5; ++i) {
    load("made" + std::to_string(i), at(kJit, 16 * (kDepth - 2)), 40 * i);
  }
  JitResolver whole = resolver();
  ASSERT_FALSE(whole.advance(1'000'000, kNever));
  const std::size_t asked_by_whole = std::exchange(asked_, 0);
  JitResolver slices = resolver();
  std::size_t turns = 1;
  for (std::size_t before = 0; slices.advance(1'000'000, kAtOnce); before = asked_, ++turns) {
    ASSERT_LE(asked_ - before, 2 * JitResolver::kFramesOfClock);
  }
  EXPECT_EQ(asked_, asked_by_whole) << "nothing is compared again";
  EXPECT_GE(turns, asked_ / (2 * JitResolver::kFramesOfClock));
  const JitSamples expected = whole.take();
  const JitSamples found = slices.take();
  EXPECT_EQ(found.runs.size(), 5U);
  EXPECT_EQ(text_of(found, samples().stacks), text_of(expected, samples().stacks));
  EXPECT_EQ(found.unnamed, expected.unnamed);
}

TEST_F(DeepJitStacksTest, AComparisonEndsWithItsTime) {
  add_stack(0, 1);
  JitLookup code = lookup();
  code.at = [this](std::uint64_t, std::uint64_t) -> std::optional<JitFunction> {
    ++asked_;
    return std::nullopt;
  };
  const StackTable& stacks = samples().stacks;
  EXPECT_TRUE(means_the_same(stacks, stacks.stacks()[0], 1, 2, code, kNever));
  EXPECT_EQ(std::exchange(asked_, 0), 2 * kDepth);
  EXPECT_FALSE(means_the_same(stacks, stacks.stacks()[0], 1, 2, code, kAtOnce));
  EXPECT_EQ(asked_, 0U);
}

TEST_F(JitSamplesTest, AFullLogIsFoldedAndNothingIsLost) {
  constexpr std::uint64_t kSamples = 3 * JitLog::kMaxEntries;
  for (std::uint64_t time = 1; time <= kSamples; ++time) {
    add(SyntheticSample(kProcess).leaf(at(kJit, 8 + time % 4), kJit), time);
  }
  EXPECT_LE(samples().jit.entries().size(), JitLog::kMaxEntries);
  load("made", at(kJit, 0), 1);
  EXPECT_EQ(text_of(resolve(), samples().stacks),
            (std::map<std::string, std::uint64_t>{{"made", kSamples}}));
}

}  // namespace
}  // namespace profd
